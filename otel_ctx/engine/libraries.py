"""What each library that wrote a dump gives and what it withholds, with the switch that mends it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from otel_ctx.calls import Told
from otel_ctx.findings import Gap, Lost, fix_for_double, gaps, switch_of
from otel_ctx.model import Call, Library, Withheld
from otel_ctx.rules import Rules
from otel_ctx.usage import decide

_Key = tuple[str, str]  # scope, its version

GIVES = (
    "messages", "system prompt", "tool definitions", "answers", "input tokens", "output tokens", "cached tokens",
    "response ids", "conversation ids",
)  # fmt: skip
"""What a library may give, in the order of reports."""

_NOT_CACHED = "Cached tokens are not recorded"
_TWICE = "Each call is recorded by another library too"


def libraries(told: Iterable[Told], calls: Iterable[Call], rules: Rules) -> tuple[Library, ...]:
    """``told``: everything that was told; ``calls``: what it was folded to, as it was judged. The libraries are in the order
    of their names."""
    told = list(told)
    whose = {t.id: _key_of(t) for t in told if t.telling.role != "content"}
    gives: dict[_Key, Counter[str]] = defaultdict(Counter)
    sums: Counter[_Key] = Counter()
    for t in told:
        if t.telling.role == "aggregate":
            sums[_key_of(t)] += 1
        else:
            gives[_key_of(t)].update(_given(t, rules))
    mine: dict[_Key, list[Call]] = defaultdict(list)
    again: Counter[_Key] = Counter()
    double: dict[_Key, set[str]] = defaultdict(set)
    for call in calls:
        own = call.scope, call.scope_version
        mine[own].append(call)
        others = {s.scope for s in call.spans if s.role == "duplicate" and s.scope != call.scope}
        double[own] |= others
        for s in call.spans:
            key = whose.get(f"{s.trace_id}:{s.span_id}", (s.scope, ""))
            if s.role == "duplicate" and key != own:
                again[key] += 1
                double[key].add(call.scope)
    keys = sorted({*gives, *mine, *again, *sums})
    return tuple(
        Library(
            scope=scope,
            version=version,
            dialects=tuple(sorted({t.telling.dialect for t in told if _key_of(t) == (scope, version)})),
            calls=len(mine[scope, version]),
            again=again[scope, version],
            sums=sums[scope, version],
            gives=tuple((what, n) for what in GIVES if (n := gives[scope, version][what])),
            withholds=tuple(_withheld(mine[scope, version], gives[scope, version], rules))
            + tuple(_twice(scope, double[scope, version], len(mine[scope, version]) + again[scope, version])),
        )
        for scope, version in keys
    )


def _key_of(t: Told) -> _Key:
    return t.telling.scope, t.telling.scope_version


def _given(t: Told, rules: Rules) -> Iterable[str]:
    usage = decide(t.telling.usage, rules.usage(*_key_of(t), t.telling.provider)) if t.telling.usage else None
    held: Mapping[str, object] = {
        "messages": t.messages.length > t.messages.unmeasured,
        "system prompt": any(s.tokens is not None for s in t.system)
        or any(s.kind == "system" for s in t.messages),
        "tool definitions": any(s.tokens is not None for s in t.tools),
        "answers": t.answer,
        "input tokens": usage is not None and usage.input is not None,
        "output tokens": usage is not None and usage.output is not None,
        "cached tokens": usage is not None and usage.cache_read is not None,
        "response ids": t.telling.response_id,
        "conversation ids": t.telling.conversation_hint,
    }
    return [what for what, there in held.items() if there]


def _withheld(calls: list[Call], given: Counter[str], rules: Rules) -> Iterable[Withheld]:
    found: dict[tuple[Lost, str, str], int] = Counter()
    for call in calls:
        for gap in gaps(call):
            found[_named(gap, call, given)] += 1
        if _never_tells_of_the_cache(call, rules):
            found["cached", _NOT_CACHED, switch_of("cached", call)] += 1
    for (lost, title, fix), n in found.items():
        yield Withheld(lost, title, n, fix)


def _never_tells_of_the_cache(call: Call, rules: Rules) -> bool:
    if call.usage.input is None or call.usage.cache_read is not None:
        return False
    rule = rules.usage(call.scope, call.scope_version, call.provider)
    return rule is not None and "cache_read" in rule.not_recorded


def _named(gap: Gap, call: Call, given: Counter[str]) -> tuple[Lost, str, str]:
    """Where a library records other calls' messages, contents are switched on: it left this one's out."""
    lost = "part" if gap.lost == "content" and given["messages"] else gap.lost
    return lost, gap.title, switch_of(lost, call)


def _twice(scope: str, others: set[str], calls: int) -> Iterable[Withheld]:
    if others:
        names = ", ".join(sorted(others))
        yield Withheld("double", f"{_TWICE}: {names}", calls, fix_for_double((scope, *sorted(others))))
