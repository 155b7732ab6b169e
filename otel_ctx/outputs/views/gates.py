"""Bounds that an analysis is held against: what ``otelctx check`` and a test's ``otelctx.check`` ask, as data.

A verdict has three values. What was not seen is never a pass: where the calls that were seen keep a bound and others could
break it, it is "not checked", and says why. A larger bound never gives a worse verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal

from otel_ctx.errors import SettingError
from otel_ctx.findings.hindsight import FEW_CALLS
from otel_ctx.model import Analysis, Conversation, NotChecked, Reading
from otel_ctx.outputs.views.compare import compare
from otel_ctx.outputs.views.selection import label

Result = Literal["pass", "fail", "not_checked"]

BREAKS = (
    "volatile_prefix", "prefix_changed", "moved_segment", "tools_reordered", "tool_schema_key_order", "tools_changed",
    "breakpoint_before_change", "evicted_content", "compaction", "compaction_loop",
)  # fmt: skip
"""Kinds that say why a prompt stopped agreeing with the one before."""
_EVICTIONS = ("evicted_content", "compaction", "compaction_loop")
_LEAST_TRUE = Fraction(
    7, 10
)  # of an estimate, as in ``otel_ctx.context``: how far a count may be off either way
_UNSEEN = ("usage_only", "none")


@dataclass(frozen=True, slots=True)
class Gates:
    """None and False: not asked. ``max_percent`` and ``max_growth_percent`` in percent; ``min_hit_ratio`` from 0 to 1."""

    max_context: int | None = None  # tokens at any call
    max_percent: float | None = None  # of the window, at any call
    max_growth: int | None = None  # tokens from one turn to the next
    max_growth_percent: float | None = None  # of the turn before
    stable_prefix: bool = False
    no_eviction: bool = False
    no_dead_schemas: bool = False
    min_hit_ratio: float | None = None  # of all input, read from the cache
    max_waste: int | None = None  # tokens billed again, all calls together
    max_waste_usd: float | None = None

    def asked(self) -> tuple[str, ...]:
        """Names. A bound of 0 is one."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return tuple(name for name, value in values if value is not None and value is not False)


def gates_of(given: Mapping[str, Any]) -> Gates:
    """Raises SettingError, which names what is wrong and what there is. Names may be written with dashes."""
    known = {f.name: f for f in fields(Gates)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f": is {_dashed(near[0])} meant?" if near else "."
            raise SettingError(f"{key!r} is no gate{meant} There are {_dashed(', '.join(known))}")
        values[name] = _value(key, value, known[name].default, str(known[name].type))
    return Gates(**values)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _value(key: str, value: Any, default: Any, type_: str) -> Any:
    if value is None:
        return default
    if default is False:
        if not isinstance(value, bool):
            raise SettingError(f"{key}: {value!r} is neither true nor false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"{key}: {value!r} is no number")
    if not 0 <= value < float("inf"):
        raise SettingError(f"{key}: {value} is no bound: it is 0 or more")
    if type_.startswith("int") and value != int(value):
        raise SettingError(f"{key}: {value} is no whole number of tokens")
    if key.replace("-", "_") == "min_hit_ratio" and value > 1:
        raise SettingError(f"{key}: {value:g} is no ratio: it lies between 0 and 1, as 0.6 does")
    return int(value) if type_.startswith("int") else float(value)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``told``: the evidence in words, without prompt text. ``value``: what is held against ``bound``, where it is one
    number and known. ``calls``: those that fail; of a gate that was not checked, those that could not be judged."""

    gate: str
    bound: float | None  # None: the gate is a switch
    result: Result
    told: str
    value: float | None
    calls: tuple[str, ...]


def judge(whole: Analysis, chosen: Analysis, gates: Gates, unread: int = 0) -> tuple[Verdict, ...]:
    """A verdict for each gate that is asked, on the calls of ``chosen``, which is ``whole`` or a part of it. ``unread``:
    records of the input that could not be read."""
    scene = _Scene(whole, chosen)
    out = []
    for gate in gates.asked():
        bound = getattr(gates, gate)
        found = _JUDGES[gate](scene, bound) if scene.readings else _Found(unknown=_NO_CALL)
        if unread and not found.failed and not found.unknown:
            found = _Found(unknown=f"{_many(unread, 'record')} of the input could not be read")
        out.append(
            Verdict(
                gate,
                None if bound is True else float(bound),
                "fail" if found.failed else "not_checked" if found.unknown else "pass",
                found.failed or found.unknown or found.passed,
                found.value,
                found.calls,
            )
        )
    return tuple(out)


_NO_CALL = "no model call in this input"


# ---- what the judges look at


@dataclass(frozen=True, slots=True)
class _Found:
    failed: str = ""
    unknown: str = ""
    passed: str = ""
    value: float | None = None
    calls: tuple[str, ...] = ()


class _Scene:
    def __init__(self, whole: Analysis, chosen: Analysis) -> None:
        self.whole, self.chosen = whole, chosen
        self.readings: Sequence[Reading] = chosen.readings
        self.by_id: Mapping[str, Reading] = {r.call.id: r for r in whole.readings}
        self.conversations: Mapping[str, Conversation] = {c.id: c for c in whole.conversations}

    def pairs(self) -> Iterator[tuple[Reading, Reading]]:
        """Each call that goes on from another, behind it."""
        for r in self.readings:
            before = self.by_id.get(r.previous or "")
            if before is not None and r.relation != "repeats":
                yield before, r

    def unplaced(self) -> list[Reading]:
        """Calls that stand alone only because nothing of them says what they go on from."""
        return [
            r
            for r in self.readings
            if r.previous is None
            and (
                (
                    r.call.completeness.status in _UNSEEN
                    and len(self.conversations[r.conversation].calls) == 1
                    and len(self.whole.readings) > 1
                )
                or bool(r.call.completeness.lost & {"messages", "head"})
            )
        ]

    def at(self, r: Reading) -> str:
        return f"turn {r.turn:,} of {label(self.conversations[r.conversation])}"

    def unchecked(self, *checks: str) -> tuple[list[str], str]:
        """Calls for which one of ``checks`` was not possible, and the first reason."""
        chosen = {r.call.id for r in self.readings}
        notes: list[NotChecked] = [n for n in self.chosen.not_checked if n.check in checks]
        calls = dict.fromkeys(c for n in notes for c in n.calls if c in chosen)
        return list(calls), notes[0].why if notes else ""


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _ids(readings: Sequence[Reading]) -> tuple[str, ...]:
    return tuple(r.call.id for r in readings)


def _of_all(few: int, scene: _Scene) -> str:
    return f"{few:,} of {_many(len(scene.readings), 'call')}"


def _others(count: int) -> str:
    return f", and {count:,} more" if count else ""


# ---- depth


_NO_SIZE = "no input is reported, or in numbers that contradict each other, and the text was not seen whole"


def _size(r: Reading) -> tuple[Fraction, Fraction] | None:
    """Between what the depth lies: one number where the provider reports it."""
    usage, call = r.context.usage, r.call
    if usage is None or call.usage.conflicts or (usage == 0 and len(call.prompt)):
        return None  # 0 beside a prompt is no report
    if r.context.usage_method == "exact":
        return Fraction(usage), Fraction(usage)
    return usage * _LEAST_TRUE, usage / _LEAST_TRUE


def _against(
    scene: _Scene,
    bound: Fraction,
    sizes: Sequence[tuple[Reading, tuple[Fraction, Fraction] | None]],
    words: Callable[[Reading], str],
    value: Callable[[Reading], float],
    why_unknown: str,
) -> _Found:
    """``sizes``: of each call, between what its number lies."""
    known = [(r, size) for r, size in sizes if size is not None]
    over = sorted((r for r, (least, _) in known if least > bound), key=lambda r: -value(r))
    if over:
        told = f"{words(over[0])}{_others(len(over) - 1)}"
        return _Found(failed=told, value=value(over[0]), calls=_ids(over))
    unseen = [r for r, size in sizes if size is None]
    near = [r for r, (_, most) in known if most > bound]
    largest = max((r for r, _ in known), key=value, default=None)
    best = value(largest) if largest is not None else None
    if unseen:
        told = f"{_of_all(len(unseen), scene)}: {why_unknown}"
        return _Found(unknown=told, value=best, calls=_ids(unseen))
    if near:
        told = f"{words(max(near, key=value))}: an estimate, too near to the bound"
        return _Found(unknown=told, value=best, calls=_ids(near))
    if largest is None:
        return _Found(unknown=_NOTHING_FOLLOWS, calls=_ids(scene.readings))
    return _Found(passed=f"at most {words(largest)}", value=best)


_NOTHING_FOLLOWS = "no call goes on from another: there is nothing to compare"


def _max_context(scene: _Scene, bound: int) -> _Found:
    return _against(
        scene,
        Fraction(bound),
        [(r, _size(r)) for r in scene.readings],
        lambda r: f"{_tokens(r)} at {scene.at(r)}",
        lambda r: float(r.context.usage or 0),
        _NO_SIZE,
    )


def _tokens(r: Reading) -> str:
    return f"{'' if r.context.usage_method == 'exact' else 'about '}{r.context.usage or 0:,} tokens"


def _max_percent(scene: _Scene, bound: float) -> _Found:
    exceeded = [r for r in scene.readings if "window_exceeded" in r.findings]
    if exceeded and bound <= 100:
        told = f"the window was exceeded at {scene.at(exceeded[0])}{_others(len(exceeded) - 1)}"
        return _Found(failed=told, calls=_ids(exceeded))
    blind = [r for r in scene.readings if r.context.usage is not None and not r.context.limit]
    models = ", ".join(dict.fromkeys(r.call.model or "a model without a name" for r in blind))

    def share(r: Reading) -> float:
        return 100 * (r.context.usage or 0) / (r.context.limit or 1)

    def between(r: Reading) -> tuple[Fraction, Fraction] | None:
        size, limit = _size(r), r.context.limit
        return (100 * size[0] / limit, 100 * size[1] / limit) if size and limit else None

    return _against(
        scene,
        Fraction(bound),
        [(r, between(r)) for r in scene.readings],
        lambda r: f"{share(r):.1f}% ({_tokens(r)} of {r.context.limit:,}) at {scene.at(r)}",
        share,
        f"the window of {models} is not known; --limit MODEL=TOKENS tells it" if blind else _NO_SIZE,
    )


# ---- growth


def _max_growth(scene: _Scene, bound: int) -> _Found:
    return _growth(scene, Fraction(bound), lambda before: Fraction(1), _more_tokens)


def _max_growth_percent(scene: _Scene, bound: float) -> _Found:
    return _growth(scene, Fraction(bound), lambda before: Fraction(100, before), _more_percent)


def _growth(
    scene: _Scene,
    bound: Fraction,
    unit: Callable[[int], Fraction],
    words: Callable[[Reading, Reading], str],
) -> _Found:
    before = {r.call.id: b for b, r in scene.pairs()}

    def between(r: Reading) -> tuple[Fraction, Fraction] | None:
        b = before[r.call.id]
        old, new = _size(b), _size(r)
        if old is None or new is None or r.gap or not b.context.usage:
            return None
        each = unit(b.context.usage)
        return (new[0] - old[1]) * each, (new[1] - old[0]) * each

    def value(r: Reading) -> float:
        b = before[r.call.id].context.usage
        return float(((r.context.usage or 0) - b) * unit(b)) if b else 0.0

    following = [r for r in scene.readings if r.call.id in before]
    found = _against(
        scene,
        bound,
        [(r, between(r)) for r in following],
        lambda r: f"{words(before[r.call.id], r)} at {scene.at(r)}",
        value,
        "what they grew by was not reported, or lies in a gap",
    )
    return found if found.failed or found.unknown else _or_unplaced(found, scene)


def _more_tokens(before: Reading, r: Reading) -> str:
    return f"{(r.context.usage or 0) - (before.context.usage or 0):+,} tokens"


def _more_percent(before: Reading, r: Reading) -> str:
    usage = before.context.usage or 1
    return f"{100 * ((r.context.usage or 0) - usage) / usage:+.1f}% ({_more_tokens(before, r)})"


def _or_unplaced(found: _Found, scene: _Scene) -> _Found:
    alone = scene.unplaced()
    if not alone:
        return found
    told = f"{_of_all(len(alone), scene)}: nothing recorded says what they go on from"
    return _Found(unknown=told, value=found.value, calls=_ids(alone))


# ---- the prompt's text


def _stable_prefix(scene: _Scene, _: bool) -> _Found:
    broken = [r for r in scene.readings if r.break_ is not None and any(k in BREAKS for k in r.findings)]
    if broken:
        first = broken[0]
        kind = next(k for k in first.findings if k in BREAKS)
        where = f"{first.break_.path} ({kind})" if first.break_ is not None else kind
        of = f"; {_many(len(broken), 'break')} in {_many(len(scene.readings), 'call')}"
        return _Found(
            failed=f"{where} at {scene.at(first)}{of}", value=float(len(broken)), calls=_ids(broken)
        )
    return _compared(
        scene, "every prompt goes on from the one before, unchanged", "prefix_changed", "tools_changed"
    )


def _no_eviction(scene: _Scene, _: bool) -> _Found:
    unsure = set(scene.unchecked("prefix_changed")[0])
    gone = [
        r
        for b, r in scene.pairs()
        if any(k in _EVICTIONS for k in r.findings) or (r.call.id not in unsure and _lost_behind(scene, b, r))
    ]
    if gone:
        first = gone[0]
        kind = next((k for k in first.findings if k in _EVICTIONS), "evicted behind another change")
        told = f"{kind} at {scene.at(first)}{_others(len(gone) - 1)}"
        return _Found(failed=told, value=float(len(gone)), calls=_ids(gone))
    return _compared(scene, "all that was sent is sent again", "prefix_changed")


def _lost_behind(scene: _Scene, before: Reading, r: Reading) -> bool:
    """A break is told once, at its first segment: what is gone behind it is not said there."""
    if r.break_ is None:
        return False
    left_out = {kind for kind, _ in scene.whole.ignored}
    if left_out & set(_EVICTIONS) and not any(k in BREAKS for k in r.findings):
        return False
    kept = {s.digest for s in r.call.prompt.messages}
    old = before.call.prompt.messages
    if all(s.digest in kept or s.kind == "system" for s in old):
        return False
    rows = compare(before, r, scene.whole.text, show_text=False).of("evicted")
    return any(
        row.before is not None and row.before.kind not in ("system", "tools", "thinking") for row in rows
    )


def _compared(scene: _Scene, passed: str, *checks: str) -> _Found:
    """A pass, unless part of the text that ``checks`` are about could not be compared."""
    pairs = list(scene.pairs())
    if not pairs:
        return _Found(unknown=_NOTHING_FOLLOWS, calls=_ids(scene.readings))
    calls, why = scene.unchecked(*checks)
    if calls:
        return _Found(unknown=f"{_of_all(len(calls), scene)}: {why}", calls=tuple(calls))
    said = f"{passed}: {_many(len(pairs), 'pair')} compared"
    return _or_unplaced(_Found(passed=said, value=0.0), scene)


def _no_dead_schemas(scene: _Scene, _: bool) -> _Found:
    found = [f for f in scene.chosen.findings if f.kind == "dead_tool_schema"]
    if found:
        told = "; ".join(f.detail.rstrip(".") for f in found)
        return _Found(failed=told, value=float(len(found)), calls=tuple(c for f in found for c in f.calls))
    names = {(r.call.service, r.call.agent) for r in scene.readings}
    agents: dict[tuple[str, str], list[Reading]] = {name: [] for name in sorted(names)}
    for r in scene.whole.readings:  # what a tool is called by need not be among the chosen calls
        if (r.call.service, r.call.agent) in agents:
            agents[r.call.service, r.call.agent].append(r)
    hidden = [r for calls in agents.values() for r in calls if r.call.completeness.status != "full"]
    if hidden:
        told = f"{_many(len(hidden), 'call')} not seen whole: a tool may be sent or called there"
        return _Found(unknown=told, calls=_ids(hidden))
    sending = {name: [r for r in calls if r.call.prompt.tools] for name, calls in agents.items()}
    few = [r for calls in sending.values() if len(calls) < FEW_CALLS for r in calls]
    if few:
        told = f"an agent with tools made fewer than {FEW_CALLS} calls: too few to say that a tool is dead"
        return _Found(unknown=told, calls=_ids(few))
    return _Found(
        passed="every tool was called or spoken of" if any(sending.values()) else "no tools were sent"
    )


# ---- the cache


def _min_hit_ratio(scene: _Scene, bound: float) -> _Found:
    billed = [r for r in scene.readings if not _refused(r)]
    dark = [r for r in billed if not r.call.usage.input or r.call.usage.conflicts]
    silent = [r for r in billed if r.call.usage.input and r.call.usage.cache_read is None]
    whole = sum(r.call.usage.input or 0 for r in billed)
    read = sum(r.call.usage.cache_read or 0 for r in billed)
    unsaid = sum(r.call.usage.input or 0 for r in silent)
    least, most = Fraction(bound) * whole <= read, Fraction(bound) * whole <= read + unsaid
    ratio = read / whole if whole and not silent else None
    if dark or not whole or (most and not least):
        quiet = [*dark, *silent] or billed
        told = f"{_of_all(len(quiet), scene)} report no input or not what of it came from the cache"
        return _Found(unknown=told, value=ratio, calls=_ids(quiet))
    said = f"{100 * read / whole:.1f}% of {whole:,} tokens came from the cache"
    if least:
        return _Found(passed=said, value=ratio)
    worst = _worst(scene, billed)
    return _Found(failed=said + worst, value=ratio, calls=_ids([r for r in billed if r.wasted] or billed))


def _refused(r: Reading) -> bool:
    """Nothing was read, and nothing billed."""
    return r.call.status != "ok" and r.call.usage.input is None


def _worst(scene: _Scene, billed: Sequence[Reading]) -> str:
    lost: dict[str, int] = {}
    for r in billed:
        lost[r.conversation] = lost.get(r.conversation, 0) + r.wasted
    worst = max(lost, key=lambda c: lost[c], default="")
    if not worst or not lost[worst]:
        return ""
    return f"; {label(scene.conversations[worst])} lost {lost[worst]:,} of what it could have read"


def _max_waste(scene: _Scene, bound: int) -> _Found:
    return _waste(scene, Fraction(bound), lambda r: float(r.wasted), lambda n: f"{n:,.0f} tokens")


def _max_waste_usd(scene: _Scene, bound: float) -> _Found:
    found = _waste(scene, Fraction(bound), lambda r: r.cost.wasted if r.cost is not None else 0.0, _usd)
    dear = [r for r in scene.readings if r.wasted and r.cost is None]
    if found.failed or not dear:
        return found
    models = ", ".join(dict.fromkeys(r.call.model or "a model without a name" for r in dear))
    told = f"{_of_all(len(dear), scene)} lost tokens at no known price ({models}); --rules FILE can tell it"
    return _Found(unknown=told, value=found.value, calls=_ids(dear))


def _usd(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.3g}"


def _waste(
    scene: _Scene, bound: Fraction, each: Callable[[Reading], float], words: Callable[[float], str]
) -> _Found:
    sure = [r for r in scene.readings if not r.call.usage.conflicts]
    lost = sum((Fraction(each(r)) for r in sure), Fraction(0))
    total = float(lost)
    guilty = [r for r in sure if r.wasted]
    if lost > bound:
        most = max(guilty, key=each)
        told = f"{words(total)} billed again, most ({words(each(most))}, {most.cause}) at {scene.at(most)}"
        return _Found(failed=told, value=total, calls=_ids(guilty))
    doubtful = [r for r in scene.readings if r.call.usage.conflicts]
    if doubtful:
        told = f"{_of_all(len(doubtful), scene)}: the numbers that are reported contradict each other"
        return _Found(unknown=told, value=total, calls=_ids(doubtful))
    dark = [r for r in scene.readings if not _refused(r) and not _accounted(r)]
    if dark:
        told = f"{_of_all(len(dark), scene)}: neither usage nor text says what the cache did"
        return _Found(unknown=told, value=total, calls=_ids(dark))
    return _or_unplaced(_Found(passed=f"{words(total)} billed again", value=total), scene)


def _accounted(r: Reading) -> bool:
    return r.call.usage.cache_read is not None or (r.access is not None and r.access.actual is not None)


_JUDGES: Mapping[str, Callable[[_Scene, Any], _Found]] = {
    "max_context": _max_context,
    "max_percent": _max_percent,
    "max_growth": _max_growth,
    "max_growth_percent": _max_growth_percent,
    "stable_prefix": _stable_prefix,
    "no_eviction": _no_eviction,
    "no_dead_schemas": _no_dead_schemas,
    "min_hit_ratio": _min_hit_ratio,
    "max_waste": _max_waste,
    "max_waste_usd": _max_waste_usd,
}
