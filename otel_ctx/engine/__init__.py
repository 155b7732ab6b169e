"""The only module that knows the stages: records in, Readings out.

``feed`` reads what is new in each record and lets its text go; ``close`` folds, threads and judges in the order of the
calls' starts, so that any chunking or shuffling of the same records gives the same readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from otel_ctx import dialects
from otel_ctx.calls import Told, fold
from otel_ctx.context import Limits, context_of, known_model
from otel_ctx.conversations import Placed, Threads, find_break, shared_segments
from otel_ctx.engine.assemble import EMPTY, Assembler
from otel_ctx.engine.texts import Texts
from otel_ctx.findings import CHECKS, Step, gather, unknown_dialects
from otel_ctx.model import (
    Analysis,
    Band,
    Break,
    Call,
    Chain,
    Conversation,
    Finding,
    LogRecord,
    Method,
    NotChecked,
    Reading,
    Span,
    Telling,
    Tokens,
)
from otel_ctx.rules import Rules, load
from otel_ctx.tokens import Counter

_FACTOR_LOW, _FACTOR_HIGH = 0.7, 1.5
_BREAKS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """``text_cap``: characters of segment texts that are kept (None: all); ``ignore``: finding kinds left out."""

    limits: Limits = Limits()
    text_cap: int | None = 64 * 1024 * 1024
    ignore: frozenset[str] = frozenset()
    tokenizer: str | None = None
    rules_override: str | None = None


@dataclass(slots=True)
class _Thread:
    """What a conversation has shown so far."""

    calls: list[str] = field(default_factory=list)
    usages: list[int] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    services: dict[str, None] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    parent: str | None = None
    gaps: int = 0
    joined: bool = False
    last: Reading | None = None
    worst: Band = "unknown"


class Engine:
    """Feed it records in any chunks, then close it."""

    def __init__(self, settings: Settings = Settings()) -> None:
        self._settings = settings
        self._rules: Rules = load(settings.rules_override)
        self.counter = Counter(settings.tokenizer)
        self._texts = Texts(settings.text_cap)
        self._assembler = Assembler(self.counter.count, self._texts)
        self._told: dict[tuple[str, str, str, int, str], Told] = {}
        self._parents: dict[tuple[str, str], str] = {}
        self._encodings: dict[tuple[str, str], str] = {}
        self._foreign: dict[str, int] = {}
        self._spans = self._logs = 0

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> None:
        """Take records in. A span or record that came before is known by its ids and counted once."""
        for span in spans:
            self._spans += 1
            self._parents[(span.trace_id, span.span_id)] = span.parent_id
            telling = dialects.read(span)
            if telling is not None:
                self._hear(telling)
            elif _looks_like_a_model(span):
                scope = span.scope_name or "(no scope)"
                self._foreign[scope] = self._foreign.get(scope, 0) + 1
        for record in logs:
            self._logs += 1
            telling = dialects.read_log(record)
            if telling is not None:
                self._hear(telling)

    def close(self) -> Analysis:
        """Fold and judge everything that was fed."""
        folded = fold(list(self._told.values()), self._parents, self._rules, self._joined)
        threads: dict[str, _Thread] = {}
        placing = Threads(self._parents, self._texts.get)
        conflicts: dict[str, list[str]] = {}
        for _, words, members in folded.sum_conflicts:
            for m in members[:1]:
                conflicts.setdefault(m, []).append(words)
        readings: list[Reading] = []
        found: list[tuple[Finding | NotChecked, Reading]] = []
        factors = _Factors()
        for call in folded.calls:
            placed = placing.place(call)
            thread = threads.setdefault(placed.conversation, _Thread())
            step = self._step(placed, thread, factors, conflicts.get(call.id, ()))
            results = [r for check in CHECKS for r in check(step)]
            results = [r for r in results if not (isinstance(r, Finding) and r.kind in self._settings.ignore)]
            kinds = tuple(dict.fromkeys(r.kind for r in results if isinstance(r, Finding)))
            reading = replace(step.reading, findings=kinds)
            _keep(thread, reading, placed)
            readings.append(reading)
            found += [(r, reading) for r in results]
        findings, not_checked = gather(found)
        foreign = tuple(sorted(self._foreign.items()))
        findings += tuple(f for f in unknown_dialects(foreign) if f.kind not in self._settings.ignore)
        return Analysis(
            readings=tuple(readings),
            conversations=tuple(_conversation(id_, t) for id_, t in threads.items()),
            findings=findings,
            not_checked=not_checked,
            spans=self._spans,
            log_records=self._logs,
            orphans=len(folded.orphans),
            unassigned_bytes=sum(o.content for o in folded.orphans),
            foreign=foreign,
            text=self._texts.get,
        )

    # ---- reading content

    def _hear(self, telling: Telling) -> None:
        order = telling.order if telling.role == "content" else 0
        key = (telling.trace_id, telling.span_id, telling.role, order, telling.dialect)
        known = self._told.get(key)
        if known is not None and telling.role != "content":
            return
        told = self._read(telling)
        if known is None:
            self._told[key] = told
        elif _other(known, told):
            n = sum(1 for k in self._told if k[:2] == key[:2])
            self._told[(*key[:4], f"{telling.dialect}#{n}")] = told

    def _read(self, telling: Telling) -> Told:
        encoding = self._encoding(telling)
        tools, tool_reasons = self._assembler.section(telling.tools, encoding)
        system, system_reasons = self._assembler.section(telling.system, encoding)
        thread = telling.conversation_hint or telling.trace_id
        messages, message_reasons = self._assembler.chain(telling.messages, encoding, thread)
        answer = self._assembler.answer(telling.output, encoding)
        reasons = telling.reasons | tool_reasons | system_reasons | message_reasons
        lost = set(telling.lost)
        if tool_reasons:
            lost.add("tools")
        if system_reasons:
            lost.add("system")
        if message_reasons:
            lost.add("messages")
        bare = replace(telling, tools=None, system=None, messages=None, output=None, lost=frozenset(lost))
        return Told(bare, tools, system, messages, answer, frozenset(reasons))

    def _encoding(self, telling: Telling) -> str:
        model = known_model(telling.response_model or telling.request_model, self._settings.limits)
        key = (model, telling.provider)
        encoding = self._encodings.get(key)
        if encoding is None:
            encoding = self._encodings[key] = self._rules.encoding_of(model, telling.provider)
        return encoding

    def _joined(self, base: Chain, chains: Iterable[Chain]) -> Chain:
        """One chain out of several, each segment at its place in the whole."""
        out = base if base.length else EMPTY
        for chain in chains:
            out = self._assembler.append(out, chain)
        return out

    # ---- judging

    def _step(self, placed: Placed, thread: _Thread, factors: _Factors, conflicts: Sequence[str]) -> Step:
        call = placed.call
        tokens = factors.tokens(call)
        usage, method = _depth(call, tokens)
        context = context_of(call, usage, method, thread.usages, self._rules, self._settings.limits)
        old = placed.compared
        seen = call.completeness.status in ("full", "partial")
        at = find_break(old, call, self._texts.get) if old is not None and seen and _both_seen(old) else None
        if at is not None and tokens.factor != 1.0:
            at = replace(at, tokens=round(at.tokens * tokens.factor))
        previous = placed.previous
        reading = Reading(
            call=call,
            conversation=placed.conversation,
            turn=placed.turn,
            relation=placed.relation,
            previous=previous.id if previous is not None else None,
            shared=shared_segments(previous.prompt, call.prompt) if previous is not None else 0,
            context=context,
            tokens=tokens,
            break_=at,
            gap=placed.gap,
        )
        return Step(reading, thread.last, old, tuple(thread.breaks), self._texts.get, conflicts)


class _Factors:
    """Counted tokens -> the provider's, fitted on the calls seen so far whose prompt is known whole."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[int, int]] = {}

    def tokens(self, call: Call) -> Tokens:
        counted, sure = _counted(call)
        reported = call.usage.input
        status = call.completeness.status
        if status in ("usage_only", "none"):
            return Tokens(0, None, None, "unmeasured")
        unaccounted = reported - counted if reported is not None else None
        served = unaccounted if "server_side" in call.completeness.reasons else None
        if sure:
            return Tokens(counted, unaccounted, served, "exact")
        key = (call.model, call.service)
        known, given = self._sums.get(key, (0, 0))
        if status == "full" and reported and counted and _FACTOR_LOW <= reported / counted <= _FACTOR_HIGH:
            known, given = known + counted, given + reported
            self._sums[key] = known, given
        if known:
            return Tokens(counted, unaccounted, served, "calibrated", round(given / known, 4))
        return Tokens(counted, unaccounted, served, "estimated")


def _counted(call: Call) -> tuple[int, bool]:
    """Tokens of all counted segments, and whether every count is exact."""
    prompt, chain = call.prompt, call.prompt.messages
    head = (*prompt.tools, *prompt.system)
    sure = not chain.estimated and all(s.method == "exact" or s.tokens is None for s in head)
    return sum(s.tokens or 0 for s in head) + sum(chain.tokens_by_kind), sure


def _depth(call: Call, tokens: Tokens) -> tuple[int | None, Method]:
    """Tokens in the window: the provider's own number, else what was counted of a prompt that was seen whole. A sum over
    several calls is no depth."""
    if "aggregate_only" in call.completeness.reasons:
        return None, "unmeasured"
    if call.usage.input is not None:
        return call.usage.input, "exact"
    if call.completeness.status == "full":
        return round(
            tokens.counted * tokens.factor
        ), tokens.method if tokens.method != "exact" else "estimated"
    return None, "unmeasured"


def _both_seen(call: Call) -> bool:
    return call.completeness.status in ("full", "partial")


def _other(a: Told, b: Told) -> bool:
    """Two content records with the same ids and time hold other content: both count."""
    return (a.messages.key, [s.digest for s in a.answer]) != (b.messages.key, [s.digest for s in b.answer])


def _keep(thread: _Thread, reading: Reading, placed: Placed) -> None:
    call = reading.call
    if not thread.calls:
        thread.parent = placed.parent
        thread.joined = reading.relation == "joined"
    thread.calls.append(call.id)
    if reading.context.usage is not None and call.status == "ok":
        thread.usages.append(reading.context.usage)
    if reading.break_ is not None:
        thread.breaks.append(reading.break_)
        del thread.breaks[:-_BREAKS_KEPT]
    thread.gaps += reading.gap
    for names, name in (
        (thread.services, call.service),
        (thread.agents, call.agent),
        (thread.models, call.model),
    ):
        if name:
            names[name] = None
    thread.last = reading


def _conversation(id_: str, t: _Thread) -> Conversation:
    last = t.last
    assert last is not None
    return Conversation(
        id=id_,
        parent=t.parent,
        calls=tuple(t.calls),
        services=tuple(t.services),
        agents=tuple(t.agents),
        models=tuple(t.models),
        usage_peak=max(t.usages, default=None),
        usage_last=t.usages[-1] if t.usages else None,
        limit=last.context.limit,
        headroom=last.context.headroom,
        headroom_turns=last.context.headroom_turns,
        band=last.context.band,
        gaps=t.gaps,
        joined=t.joined,
    )


_HINTS = ("gen_ai.", "llm.", "ai.prompt", "ai.model", "openinference.", "traceloop.")


def _looks_like_a_model(span: Span) -> bool:
    """Telemetry of a model's use that no dialect knows: attributes that hold messages or token counts."""
    return any(
        k.startswith(_HINTS) and ("token" in k or "message" in k or "prompt" in k) for k in span.attributes
    )


__all__ = ["Engine", "Settings"]
