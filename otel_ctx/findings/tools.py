"""Tool definitions that stopped agreeing: their order, the order of keys inside them, or what they say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from otel_ctx.findings.loss import UNSEEN, known_by_hash, loss_of, too_short
from otel_ctx.findings.marking import marking_of
from otel_ctx.findings.step import Step, named
from otel_ctx.model import Break, Finding, Segment
from otel_ctx.parts import loads

_LISTED = 8

_KEEP = (
    "Send the same tools through the whole conversation: what is not wanted now can be ruled out by tool_choice, "
    "and what comes later belongs at the end, or behind a tool that searches for tools."
)
_SORT = (
    "Send the tools in one fixed order, sorted by name for example, and write their schemas with sorted keys."
)


def tools_reordered(step: Step) -> Iterator[Finding]:
    """The same definitions in another order."""
    both = _both(step)
    if both is None:
        return
    at, old, new = both
    a, b = _meanings(step, old), _meanings(step, new)
    if a == b or Counter(a) != Counter(b):
        return
    moved = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    keys = "" if _digests(old) == _digests(new) else " The keys of their schemas changed places too."
    was: dict[str, int] = {}
    for i, meaning in enumerate(a):
        was.setdefault(meaning, i)
    words = [f"{named(new[i])} was tools[{was[b[i]]}]" for i in moved]
    yield _finding(
        step,
        at,
        "tools_reordered",
        "error",
        "Tools were sent in another order",
        f"{_listed(words)}.{keys}",
        _SORT,
    )


def tool_schema_key_order(step: Step) -> Iterator[Finding]:
    """Definitions that say the same, with their keys in another order."""
    both = _both(step)
    if both is None:
        return
    at, old, new = both
    if _meanings(step, old) != _meanings(step, new):
        return
    differ = [named(n) for o, n in zip(old, new, strict=True) if o.digest != n.digest]
    yield _finding(
        step, at, "tool_schema_key_order", "error", "Keys inside a tool's schema changed places",
        f"The same definitions, written in another order of keys: {_listed(differ)}.", _SORT,
    )  # fmt: skip


def tools_changed(step: Step) -> Iterator[Finding]:
    """Tools that were added, taken away or defined anew."""
    both = _both(step)
    if both is None:
        return
    at, old, new = both
    if known_by_hash(at):
        said = f"{UNSEEN} The definitions themselves were not given."
        yield _finding(step, at, "tools_changed", "warning", "Tool definitions changed", said, _KEEP)
        return
    before = dict(zip(_keys(old), old, strict=True))
    after = dict(zip(_keys(new), new, strict=True))
    groups = (
        ("added", [named(s) for k, s in after.items() if k not in before]),
        ("removed", [named(s) for k, s in before.items() if k not in after]),
        ("changed", [named(s) for k, s in after.items() if k in before and s.digest != before[k].digest]),
    )
    said = "; ".join(f"{len(names)} {word}: {_listed(names)}" for word, names in groups if names)
    kept = [k for k in before if k in after], [k for k in after if k in before]
    order = " Those that stayed are in another order." if kept[0] != kept[1] else ""
    counts = f"{len(old)} → {len(new)} tools." if len(old) != len(new) else f"{len(new)} tools."
    yield _finding(
        step, at, "tools_changed", "warning", "Tool definitions changed", f"{counts} {said}.{order}".replace(" .", ""),
        _KEEP,
    )  # fmt: skip


def _finding(step: Step, at: Break, kind: str, severity: Any, title: str, detail: str, fix: str) -> Finding:
    loss = loss_of(step, at)
    harmless = too_short(step, loss) if severity == "error" else ""
    return Finding(
        kind=kind,
        severity="info" if harmless else severity,
        title=title,
        detail=f"{detail}{harmless}",
        fix=marking_of(step.call).own or fix,
        calls=(step.call.id,),
        path=at.path,
        tokens=loss.tokens,
        evidence=loss.evidence,
    )


def _both(step: Step) -> tuple[Break, Sequence[Segment], Sequence[Segment]] | None:
    """The break, the tools before and the tools now, where it is the tools that differ."""
    at = step.reading.break_
    if at is None or at.kind != "tools" or step.compared is None:
        return None
    return at, step.compared.prompt.tools, step.call.prompt.tools


def _meanings(step: Step, tools: Sequence[Segment]) -> list[str]:
    """What each definition says, whatever the order of its keys; its digest where the text is not kept."""
    return [_canonical(step.text(s.digest)) or s.digest for s in tools]


def _canonical(text: str | None) -> str:
    if text is None or text[:1] != "{":
        return ""
    try:
        return json.dumps(_unordered(loads(text)), sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        return ""


def _unordered(value: Any) -> Any:
    """``required`` is a set of names by JSON Schema's own words: its order says nothing."""
    if isinstance(value, dict):
        return {
            k: sorted(v)
            if k == "required" and isinstance(v, list) and all(isinstance(x, str) for x in v)
            else _unordered(v)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_unordered(v) for v in value]
    return value


def _digests(tools: Sequence[Segment]) -> Counter[str]:
    return Counter(s.digest for s in tools)


def _keys(tools: Sequence[Segment]) -> list[tuple[str, int]]:
    """A tool is known by its name, and by its place among those of the same name."""
    seen: Counter[str] = Counter()
    keys = []
    for s in tools:
        keys.append((s.name, seen[s.name]))
        seen[s.name] += 1
    return keys


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _LISTED
    return ", ".join(words[:_LISTED]) + (f" and {more} more" if more > 0 else "")
