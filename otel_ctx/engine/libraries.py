"""What each library that wrote a dump gives and what it withholds, with the switch that mends it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from otel_ctx.calls import Told, usage_of
from otel_ctx.findings import Lost, fix_for, fix_for_double, gaps, switch_of
from otel_ctx.model import KIND_INDEX, Call, Library, Segment, Usage, Withheld
from otel_ctx.rules import Rules

_Key = tuple[str, str]  # scope, its version

GIVES = (
    "messages", "system prompt", "tool definitions", "answers", "input tokens", "output tokens", "cached tokens",
    "response ids", "conversation ids",
)  # fmt: skip
"""What a library may give, in the order of reports, and of the values in ``_given``."""

_NOT_CACHED = "Cached tokens are not recorded"
_NO_CALLS = "Single calls are not recorded"
_SYSTEM = KIND_INDEX["system"]
_TWICE = "Each call is recorded by another library too"


@dataclass(slots=True)
class _Share:
    """What one library told, while it is being gathered."""

    dialects: set[str] = field(default_factory=set)
    gives: Counter[str] = field(default_factory=Counter)
    calls: list[Call] = field(default_factory=list)
    again: int = 0
    sums: int = 0
    others: set[str] = field(default_factory=set)  # scopes that tell of the same calls


class _Record(NamedTuple):
    """Something that was told, without what it told."""

    id: str
    key: _Key
    dialect: str
    role: str
    gives: tuple[str, ...]


class Libraries:
    """The libraries of some calls, in the order of their names. ``told``: everything that was told; ``calls``: what it was
    folded to, as it was judged; ``usages``: as far as it was found on the way."""

    def __init__(
        self, told: Iterable[Told], calls: Iterable[Call], rules: Rules, usages: Mapping[Told, Usage]
    ) -> None:
        self._records = [
            _Record(
                t.id,
                (t.telling.scope, t.telling.scope_version),
                t.telling.dialect,
                t.telling.role,
                _given(t, usages.get(t) or usage_of(t, rules)),
            )
            for t in told
        ]
        self._calls = tuple(calls)
        self._rules = rules

    def of_all(self) -> tuple[Library, ...]:
        return _libraries(self._records, self._calls, self._rules)

    def of(self, ids: Container[str]) -> tuple[Library, ...]:
        """Those that tell of these calls, by what they tell of them."""
        calls = [call for call in self._calls if call.id in ids]
        spans = {f"{span.trace_id}:{span.span_id}" for call in calls for span in call.spans}
        return _libraries([r for r in self._records if r.id in spans], calls, self._rules)


def _libraries(records: Sequence[_Record], calls: Iterable[Call], rules: Rules) -> tuple[Library, ...]:
    shares: dict[_Key, _Share] = defaultdict(_Share)
    whose = {record.id: record.key for record in records if record.role != "content"}
    for (key, dialect, role, gives), n in Counter(record[1:] for record in records).items():
        share = shares[key]
        share.dialects.add(dialect)
        if role == "aggregate":
            share.sums += n
        else:
            share.gives.update(dict.fromkeys(gives, n))
    for call in calls:
        own = call.scope, call.scope_version
        shares[own].calls.append(call)
        for span in call.spans:
            if span.role != "duplicate":
                continue
            other = whose.get(f"{span.trace_id}:{span.span_id}", (span.scope, ""))
            if other != own:
                shares[other].again += 1
                # a log or a transcript beside spans is no second instrumentation
                if call.scope and span.scope:
                    shares[other].others.add(call.scope)
                    shares[own].others.add(span.scope)
    nothing = not any(share.calls for share in shares.values())
    return tuple(
        _library(key, share, rules, no_calls=nothing)
        for key, share in sorted(shares.items(), key=itemgetter(0))
    )


def _library(key: _Key, share: _Share, rules: Rules, *, no_calls: bool) -> Library:
    scope, version = key
    alone = no_calls and share.sums  # nobody tells of the calls below these spans
    sums = [Withheld("sum", _NO_CALLS, None, fix_for("sum", scope, version))] if alone else []
    return Library(
        scope=scope,
        version=version,
        dialects=tuple(sorted(share.dialects)),
        calls=len(share.calls),
        again=share.again,
        sums=share.sums,
        gives=tuple((what, n) for what in GIVES if (n := share.gives[what])),
        withholds=(*_withheld(share, rules), *sums, *_told_twice(scope, share)),
    )


def _given(t: Told, usage: Usage) -> tuple[str, ...]:
    messages, said = t.messages, t.telling
    held = (  # in the order of ``GIVES``
        messages.length > messages.unmeasured,
        _seen(t.system) or messages.tokens_by_kind[_SYSTEM],
        _seen(t.tools),
        t.answer,
        usage.input is not None,
        usage.output is not None,
        usage.cache_read is not None,
        said.response_id,
        said.conversation_hint,
    )
    return tuple(compress(GIVES, held))


def _seen(section: tuple[Segment, ...]) -> bool:
    return any(s.tokens is not None for s in section)


def _withheld(share: _Share, rules: Rules) -> Iterator[Withheld]:
    found: Counter[tuple[Lost, str, str]] = Counter()
    messages, cached = share.gives["messages"], share.gives["cached tokens"]
    for call in share.calls:
        for gap in gaps(call):
            # where other calls' messages are there, contents are switched on: these were left out
            lost = "part" if gap.lost == "content" and messages else gap.lost
            found[lost, gap.title, switch_of(lost, call)] += 1
        if _tells_nothing_of_the_cache(call, rules, others=cached):
            found["cached", _NOT_CACHED, switch_of("cached", call)] += 1
    for (lost, title, fix), n in found.items():
        yield Withheld(lost, title, n, fix)


def _told_twice(scope: str, share: _Share) -> Iterator[Withheld]:
    others = sorted(share.others - {scope})
    if others:
        title = f"{_TWICE}: {', '.join(others)}"
        yield Withheld("double", title, len(share.calls) + share.again, fix_for_double((scope, *others)))


def _tells_nothing_of_the_cache(call: Call, rules: Rules, *, others: int) -> bool:
    """By the table of this library; else where none of its calls here (``others``) does either, whatever the reason."""
    usage = call.usage
    if usage.input is None or usage.cache_read is not None:
        return False
    rule = rules.usage(call.scope, call.scope_version, call.provider)
    if rule is not None and "cache_read" in rule.not_recorded:
        return True
    return not (others or usage.conflicts or "attributes_dropped" in call.completeness.reasons)
