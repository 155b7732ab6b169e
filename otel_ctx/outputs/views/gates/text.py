"""Gates of the prompt's text: what stays, what is gone, which tools are dead."""

from __future__ import annotations

from otel_ctx.calls import accounted_for
from otel_ctx.findings.hindsight import FEW_CALLS
from otel_ctx.model import Reading
from otel_ctx.outputs.views.compare import compare
from otel_ctx.outputs.views.gates.scene import (
    NOTHING_FOLLOWS,
    Found,
    Scene,
    but_for,
    ids,
    many,
    of_all,
    or_unplaced,
    others,
)

BREAKS = (
    "volatile_prefix", "prefix_changed", "moved_segment", "tools_reordered", "tool_schema_key_order", "tools_changed",
    "breakpoint_before_change", "evicted_content", "compaction", "compaction_loop",
)  # fmt: skip
"""Kinds that say why a prompt stopped agreeing with the one before."""
_NONE_COMPARED = "no call goes on from one of the same agent: there is nothing to compare"
_EVICTIONS = ("evicted_content", "compaction", "compaction_loop")


def stable_prefix(scene: Scene, _: bool) -> Found:
    broken = [r for r in scene.readings if r.break_ is not None and any(k in BREAKS for k in r.findings)]
    if broken:
        first = broken[0]
        kind = next(k for k in first.findings if k in BREAKS)
        where = f"{first.break_.path} ({kind})" if first.break_ is not None else kind
        of = f"; {many(len(broken), 'break')} in {many(len(scene.readings), 'call')}"
        return Found(failed=f"{where} at {scene.at(first)}{of}", value=float(len(broken)), calls=ids(broken))
    hidden = sum(r.break_ is not None for r in scene.readings)
    left_out = scene.left_out(BREAKS) if hidden else []
    told = "every prompt goes on from the one before, unchanged"
    told = but_for(left_out, told, f"{many(hidden, 'break')} {'that is' if hidden == 1 else 'that are'}")
    return _compared(scene, told, "prefix_changed", "tools_changed")


def no_eviction(scene: Scene, _: bool) -> Found:
    unsure = set(scene.unchecked("prefix_changed")[0])
    gone = [
        r
        for b, r in scene.pairs()
        if any(k in _EVICTIONS for k in r.findings) or (r.call.id not in unsure and _lost_behind(scene, b, r))
    ]
    if gone:
        first = gone[0]
        kind = next((k for k in first.findings if k in _EVICTIONS), "evicted behind another change")
        told = f"{kind} at {scene.at(first)}{others(len(gone) - 1)}"
        return Found(failed=told, value=float(len(gone)), calls=ids(gone))
    told = but_for(scene.left_out(_EVICTIONS), "all that was sent is sent again")
    return _compared(scene, told, "prefix_changed")


def _lost_behind(scene: Scene, before: Reading, r: Reading) -> bool:
    """A break is told once, at its first segment: what is gone behind it is not said there."""
    if r.break_ is None:
        return False
    if scene.left_out(_EVICTIONS) and not any(k in BREAKS for k in r.findings):
        return False
    kept = {s.digest for s in r.call.prompt.messages}
    old = before.call.prompt.messages
    if all(s.digest in kept or s.kind == "system" for s in old):
        return False
    rows = compare(before, r, scene.whole.text, show_text=False).of("evicted")
    return any(
        row.before is not None and row.before.kind not in ("system", "tools", "thinking") for row in rows
    )


def _compared(scene: Scene, passed: str, *checks: str) -> Found:
    """A pass, unless part of the text that ``checks`` are about could not be compared."""
    if not any(scene.pairs()):
        return Found(unknown=NOTHING_FOLLOWS, calls=ids(scene.readings))
    calls, why = scene.unchecked(*checks)
    if calls:
        return Found(unknown=f"{of_all(len(calls), scene)}: {why}", calls=tuple(calls))
    compared = scene.compared()
    if not compared:
        return Found(unknown=_NONE_COMPARED, calls=ids(scene.readings))
    said = f"{passed}: {many(len(compared), 'pair')} compared"
    return or_unplaced(Found(passed=said, value=0.0), scene)


def no_dead_schemas(scene: Scene, _: bool) -> Found:
    found = [f for f in scene.chosen.findings if f.kind == "dead_tool_schema"]
    if found:
        told = "; ".join(f.detail.rstrip(".") for f in found)
        return Found(failed=told, value=float(len(found)), calls=tuple(c for f in found for c in f.calls))
    names = {(r.call.service, r.call.agent) for r in scene.readings}
    agents: dict[tuple[str, str], list[Reading]] = {name: [] for name in sorted(names)}
    for r in scene.whole.readings:  # what a tool is called by need not be among the chosen calls
        if (r.call.service, r.call.agent) in agents:
            agents[r.call.service, r.call.agent].append(r)
    hidden = [r for calls in agents.values() for r in calls if r.call.completeness.status != "full"]
    if hidden:
        told = f"{many(len(hidden), 'call')} not seen whole: a tool may be sent or called there"
        return Found(unknown=told, calls=ids(hidden))
    sending = {name: [r for r in calls if r.call.prompt.tools] for name, calls in agents.items()}
    few = [r for calls in sending.values() if len(calls) < FEW_CALLS for r in calls]
    if few:
        told = f"an agent with tools made fewer than {FEW_CALLS} calls: too few to say that a tool is dead"
        return Found(unknown=told, calls=ids(few))
    untold = [r for name, calls in agents.items() if not sending[name] for r in calls if not _sent_none(r)]
    if untold:
        told = f"{many(len(untold), 'call')} without a tool on record: whether none was sent is not known"
        return Found(unknown=told, calls=ids(untold))
    told = "every tool was called or spoken of" if any(sending.values()) else "no tools were sent"
    return Found(passed=but_for(scene.left_out(("dead_tool_schema",)), told))


def _sent_none(r: Reading) -> bool:
    """A request's own body says so, or the reported input leaves no room for any."""
    return r.call.record == "request" or accounted_for(r.call.prompt, r.call.usage)
