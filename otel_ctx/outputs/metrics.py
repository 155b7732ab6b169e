"""The metrics: one table, and what a reading adds to them.

The table keeps rules that make a metric the same on every path to Prometheus, through whatever exporter or Collector:

* units are annotations (``{token}``), ``s``, ``1`` or nothing, so that no suffix depends on the translator;
* the noun (tokens, turns, usd, ratio) is the last word of the name, and no name has ``total`` inside;
* own attribute keys have no dots, truth values are the strings "true" and "false";
* a sum over all attributes means something: each token, call and span is in one series only.

No conversation or trace id is an attribute, but for the opt-in gauges, which never go through an OpenTelemetry SDK: it
keeps every attribute set that it ever saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from otel_ctx.findings.kinds import KINDS as FINDING_KINDS
from otel_ctx.findings.kinds import severity_of
from otel_ctx.model import KINDS, SEVERITIES, Band, Evidence, Reading, Said, Status, Usage
from otel_ctx.outputs.report import outcome_of
from otel_ctx.outputs.views.kinds import by_kind

SERVICE, VERSION = "source_service", "source_version"  # of the app that made the call, not of who tells
PROVIDER, MODEL = "gen_ai.provider.name", "gen_ai.request.model"
CONVERSATION = "conversation"
SOURCE = (SERVICE, PROVIDER, MODEL)
OPEN = frozenset({SERVICE, VERSION, PROVIDER, MODEL, CONVERSATION})
"""The keys whose values come from outside. Every other key has a closed set of values."""

OTHER, UNKNOWN = "other", "unknown"

Group = Literal["context", "calls", "cache", "cost", "conversation", "self"]

# ---- closed values

_SEGMENTS = (*KINDS, OTHER)
_BREAKS_TOOLS = ("tools_changed", "tools_reordered", "tool_schema_key_order")
_BREAKS_TEXT = ("volatile_prefix", "prefix_changed", "moved_segment", "compaction")
_BREAKS_ELSEWHERE = ("model_switch", "parameters_changed")
_CAUSES = (
    "volatile_prefix", "prefix_changed", "tools_changed", "tools_reordered", "tool_schema_key_order", "moved_segment",
    "model_switch", "parameters_changed", "compaction", "no_cache_control", "below_minimum",
    "breakpoint_before_change", "frozen_breakpoint", "lookback_exceeded", "missing_tail_breakpoint", "ttl_expired",
    "ttl_overpaid", "ttl_lost", "parallel_miss", "server_side_rewrite_suspected", "provider_side_miss",
    "duplicate_content", "dead_tool_schema", UNKNOWN,
)  # fmt: skip
_TRUTH = ("true", "false")

VALUES: Mapping[str, tuple[str, ...]] = {
    "category": _SEGMENTS,
    "state": ("read", "write", "uncached", UNKNOWN),
    "part": ("input_uncached", "cache_read", "cache_write", "output"),
    "outcome": ("hit", "partial", "miss", "cold", "ineligible", "not_reported"),
    "cause": _CAUSES,
    "break_cause": (*_BREAKS_TOOLS, *_BREAKS_TEXT, *_BREAKS_ELSEWHERE, UNKNOWN),
    "evidence": get_args(Evidence),
    "kind": FINDING_KINDS,
    "severity": SEVERITIES,
    "headroom": get_args(Band),
    "content": get_args(Status),
    "result": ("analysed", "duplicate", "not_genai", "unreadable", "failed", "late", "dropped"),
    "loss": (
        "attributes_dropped", "value_cut", "message_cut", "redacted", "logs_missing", "reference_missing", "unparsable",
        "late",
    ),
    "success": _TRUTH,
    "early": _TRUTH,
    "realized": _TRUTH,
}  # fmt: skip
"""The closed sets; what is not in them is counted as ``other``."""

# What goes together, so that the zeros are no more than there can be events.
_FINDINGS = tuple((kind, severity_of(kind)) for kind in FINDING_KINDS)
_SURE = ("confirmed", "reported", "predicted")
_BREAKS: tuple[tuple[str, ...], ...] = (  # category, break_cause, evidence
    *product(("tools",), (*_BREAKS_TOOLS, "volatile_prefix"), _SURE),
    *product((k for k in KINDS if k != "tools"), _BREAKS_TEXT, _SURE),
    *product((OTHER,), _BREAKS_ELSEWHERE, (*_SURE, "inferred")),
    *product(_SEGMENTS, (UNKNOWN,), (UNKNOWN,)),
    (OTHER, UNKNOWN, "inferred"),
)

_BREAK_SETS = frozenset(_BREAKS)

# ---- the table


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument. ``keys`` are its attributes; ``buckets`` are upper bounds of a histogram, floats so that every
    exporter prints them alike; ``sets`` are the closed values that go together (empty: all combinations)."""

    group: Group
    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    keys: tuple[str, ...]
    description: str
    buckets: tuple[float, ...] = ()
    opt_in: bool = False
    sets: tuple[tuple[str, ...], ...] = ()


_TOKENS = (
    256.0, 1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 98304.0, 131072.0, 163840.0, 200000.0, 262144.0,
    400000.0, 524288.0, 1048576.0, 2097152.0,
)  # fmt: skip
_LEFT = (
    0.0, 1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 200000.0, 262144.0, 524288.0, 1048576.0,
)  # fmt: skip
_SHARE = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.25)
_TURNS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 100.0, 200.0)
_GROWTH = (0.0, 64.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0)
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

TABLE: tuple[Metric, ...] = (
    Metric("context", "otelctx.context.tokens", "histogram", "{token}", SOURCE,
           "Tokens in the window at one model call: its input, cached tokens included.", _TOKENS),
    Metric("context", "otelctx.context.utilization.ratio", "histogram", "1", SOURCE,
           "Tokens in the window divided by the model's window.", _SHARE),
    Metric("context", "otelctx.context.headroom.tokens", "histogram", "{token}", SOURCE,
           "Tokens left before the window, less the reserved output, is full.", _LEFT),
    Metric("context", "otelctx.context.headroom.turns", "histogram", "{turn}", SOURCE,
           "Turns left at the conversation's present growth.", _TURNS),
    Metric("context", "otelctx.context.growth.tokens", "histogram", "{token}", SOURCE,
           "Growth of the context a turn, over the conversation's last turns. Shrinking is not recorded.", _GROWTH),
    Metric("context", "otelctx.context.segment.tokens", "counter", "{token}", (*SOURCE, "category"),
           "Input tokens sent, by kind of segment."),
    Metric("context", "otelctx.context.compactions", "counter", "{compaction}", SOURCE,
           "Times a conversation's history was replaced by a summary."),
    Metric("context", "otelctx.context.window.tokens", "gauge", "{token}", (PROVIDER, MODEL),
           "Window that the figures of the model are measured against."),
    Metric("context", "otelctx.conversations", "gauge", "{conversation}", (SERVICE, "headroom"),
           "Conversations seen in the last activity window, by headroom."),
    Metric("context", "otelctx.source.info", "gauge", "", (SERVICE, VERSION),
           "1 for every version of a service seen in the last activity window."),
    Metric("calls", "otelctx.calls", "counter", "{call}", (*SOURCE, "content"),
           "Model calls, by how much of their content could be read when they arrived."),
    Metric("cache", "otelctx.cache.reported.tokens", "counter", "{token}", (*SOURCE, "state"),
           "Input tokens by what the provider's cache did with them, as the provider reported it."),
    Metric("cache", "otelctx.cache.simulated.tokens", "counter", "{token}", (*SOURCE, "state"),
           "Input tokens by what the simulated cache does with the request as it was sent."),
    Metric("cache", "otelctx.cache.optimal.tokens", "counter", "{token}", (*SOURCE, "state"),
           "Input tokens by what the cache could do with the same content behind a stable prefix."),
    Metric("cache", "otelctx.cache.calls", "counter", "{call}", (*SOURCE, "outcome"),
           "Model calls by cache outcome."),
    Metric("cache", "otelctx.cache.breaks", "counter", "{break}", (SERVICE, "category", "break_cause", "evidence"),
           "Cache breaks by the segment where the prefix first differs, and why.", sets=_BREAKS),
    Metric("cost", "otelctx.waste.tokens", "counter", "{token}", (*SOURCE, "cause"),
           "Tokens billed again that an unbroken, well-marked prefix would have read, each with one cause."),
    Metric("cost", "otelctx.waste.cost.usd", "counter", "{USD}", (*SOURCE, "cause"),
           "What those tokens cost above the price of a read."),
    Metric("cost", "otelctx.cost.usd", "counter", "{USD}", (*SOURCE, "part"), "Cost at list price."),
    Metric("cost", "otelctx.savings.usd", "counter", "{USD}", (*SOURCE, "realized"),
           "What caching saved (realized true), and what more it could have saved (false)."),
    Metric("cost", "otelctx.findings", "counter", "{finding}", (SERVICE, "kind", "severity"),
           "Findings, each kind once a conversation.", sets=_FINDINGS),
    Metric("conversation", "otelctx.conversation.context.tokens", "gauge", "{token}", (SERVICE, CONVERSATION),
           "Tokens in the window of the conversations nearest their limit.", opt_in=True),
    Metric("conversation", "otelctx.conversation.headroom.tokens", "gauge", "{token}", (SERVICE, CONVERSATION),
           "Headroom of the same.", opt_in=True),
    Metric("conversation", "otelctx.conversation.headroom.turns", "gauge", "{turn}", (SERVICE, CONVERSATION),
           "Turns left of the same.", opt_in=True),
    Metric("self", "otelctx.self.spans", "counter", "{span}", ("result",), "Spans seen, each with one result."),
    Metric("self", "otelctx.self.content.lost", "counter", "{span}", ("loss",),
           "Spans of model calls whose content arrived damaged, by how."),
    Metric("self", "otelctx.self.queue.size", "gauge", "{span}", (), "Spans waiting to be analysed."),
    Metric("self", "otelctx.self.queue.capacity", "gauge", "{span}", (), "Spans that may wait."),
    Metric("self", "otelctx.self.processing.duration", "histogram", "s", (), "Time to analyse one span.", _SECONDS),
    Metric("self", "otelctx.self.exports", "counter", "{export}", ("success",), "Batches sent on."),
    Metric("self", "otelctx.self.conversations.tracked", "gauge", "{conversation}", (),
           "Conversations held in memory."),
    Metric("self", "otelctx.self.conversations.evicted", "counter", "{conversation}", ("early",),
           "Conversations let go; early where their number, not their age, made it necessary."),
    Metric("self", "otelctx.self.rulebook.age", "gauge", "s", (), "Age of the tables of windows and prices."),
    Metric("self", "otelctx.self.model.unknown", "counter", "{call}", (SERVICE,),
           "Calls to a model whose window is not known."),
)  # fmt: skip

METRICS: Mapping[str, Metric] = {m.name: m for m in TABLE}

FED: frozenset[str] = frozenset(m.name for m in TABLE if not m.opt_in)
"""What the engine fills. The others never go through an SDK."""


def prometheus_name(metric: Metric) -> str:
    """The metric's name in Prometheus, by underscores and with suffixes."""
    name = metric.name.replace(".", "_")
    if metric.unit == "s":
        name += "_seconds"
    return f"{name}_total" if metric.kind == "counter" else name


def label_sets(metric: Metric) -> Iterator[dict[str, str]]:
    """The combinations of the metric's closed attributes that are to be expected; one empty one where it has none."""
    closed = [k for k in metric.keys if k not in OPEN]
    for values in metric.sets or product(*(VALUES[k] for k in closed)):
        yield dict(zip(closed, values, strict=True))


def zeros(service: str = "", provider: str = "", model: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """(metric, attributes) of the counters to be exported as 0 before their first event, which ``increase()`` would
    not see otherwise: those of the process (no argument), of a service, or of a service's model."""
    source = {k: v for k, v in zip(SOURCE, (service, provider, model), strict=True) if v}
    for metric in TABLE:
        counts = metric.kind == "counter" and metric.name in FED
        if counts and OPEN.intersection(metric.keys) == source.keys():
            for closed in label_sets(metric):
                yield metric.name, {**source, **closed}


# ---- what a reading adds


def source_of(reading: Reading) -> dict[str, str]:
    """Service, provider and model of the call; what no span says is ``unknown``."""
    call = reading.call
    return {
        SERVICE: call.service or UNKNOWN,
        PROVIDER: call.provider or UNKNOWN,
        MODEL: call.model or UNKNOWN,
    }


def records(said: Said, *, first: bool) -> Iterator[tuple[str, int | float, dict[str, str]]]:
    """(metric, value, attributes) that a call adds: its usage when it is said first, its content and findings when it
    is settled. What is said ``again`` adds nothing. A finding's kind counts once in a conversation: the caller, who
    remembers the conversations, leaves out the others."""
    if said.again:
        return
    source = source_of(said.reading)
    if first is not said.usage_later:
        yield from _usage(said.reading, source)
    if not first:
        yield from _content(said, source)


def _usage(r: Reading, source: dict[str, str]) -> Iterator[tuple[str, int | float, dict[str, str]]]:
    context = r.context
    yield "otelctx.calls", 1, {**source, "content": r.call.completeness.status}
    if context.limit is None:
        yield "otelctx.self.model.unknown", 1, {SERVICE: source[SERVICE]}
    if context.usage is not None:
        yield "otelctx.context.tokens", context.usage, source
    if context.utilization is not None:
        yield "otelctx.context.utilization.ratio", context.utilization, source
    if context.headroom is not None:
        yield "otelctx.context.headroom.tokens", max(context.headroom, 0), source
    if context.headroom_turns is not None:
        yield "otelctx.context.headroom.turns", context.headroom_turns, source
    for state, tokens in _by_state(r.call.usage).items():
        if tokens:
            yield "otelctx.cache.reported.tokens", tokens, {**source, "state": state}


def _cache(said: Said, source: dict[str, str]) -> Iterator[tuple[str, int | float, dict[str, str]]]:
    """What the cache did, what it could have done, and what came between."""
    r = said.reading
    access = r.access
    outcome = outcome_of(r)
    if outcome is not None and (access is not None or r.call.usage.input is not None):
        yield "otelctx.cache.calls", 1, {**source, "outcome": outcome}
    if access is not None:
        for name, tokens in (("simulated", access.predicted), ("optimal", access.optimal)):
            for state, count in tokens._asdict().items() if tokens is not None else ():
                if count:
                    yield f"otelctx.cache.{name}.tokens", count, {**source, "state": state}
    broken = _break(said)
    if broken is not None:
        labels = dict(zip(("category", "break_cause", "evidence"), broken, strict=True))
        yield "otelctx.cache.breaks", 1, {SERVICE: source[SERVICE], **labels}
    for cause, lost in r.losses:
        yield "otelctx.waste.tokens", lost, {**source, "cause": cause}
    if r.cost is None:
        return
    for cause, paid in r.cost.losses.items():
        if paid:
            yield "otelctx.waste.cost.usd", paid, {**source, "cause": cause}
    for realized, usd in (("true", r.cost.saved), ("false", r.cost.wasted)):
        if usd is not None and usd > 0:
            yield "otelctx.savings.usd", usd, {**source, "realized": realized}
    for part, usd in r.cost.parts.items():
        if usd:
            yield "otelctx.cost.usd", usd, {**source, "part": part}


def _break(said: Said) -> tuple[str, str, str] | None:
    """Category, cause and evidence, one of ``_BREAKS``; None where nothing broke."""
    r = said.reading
    category = r.break_.kind if r.break_ is not None else OTHER
    named = [(f.kind, f.evidence) for f in said.findings if f.kind in VALUES["break_cause"]]
    for cause, evidence in (*named, (r.cause, r.evidence)):
        for place in (category, OTHER):
            if (place, cause, evidence) in _BREAK_SETS:
                return place, cause, evidence
    return (category, UNKNOWN, UNKNOWN) if r.break_ is not None or r.cause == UNKNOWN else None


def _by_state(usage: Usage) -> dict[str, int]:
    """The reported input, each token in one state."""
    if usage.input is None:
        return {}
    if usage.cache_read is None and usage.cache_write is None:
        return {UNKNOWN: usage.input}
    # Numbers that contradict each other must not count a token twice.
    read = min(usage.cache_read or 0, usage.input)
    write = min(usage.cache_write or 0, usage.input - read)
    return {"read": read, "write": write, "uncached": usage.input - read - write}


def _content(said: Said, source: dict[str, str]) -> Iterator[tuple[str, int | float, dict[str, str]]]:
    r = said.reading
    for kind, tokens in by_kind(r).items():
        if tokens:
            yield "otelctx.context.segment.tokens", tokens, {**source, "category": kind}
    if r.context.growth is not None and r.context.growth >= 0:
        yield "otelctx.context.growth.tokens", r.context.growth, source
    found = {f.kind: f.severity for f in said.findings}
    if r.relation == "compacted" or "compaction" in found:
        yield "otelctx.context.compactions", 1, source
    yield from _cache(said, source)
    for kind, severity in found.items():
        yield "otelctx.findings", 1, {SERVICE: source[SERVICE], "kind": kind, "severity": severity}


# ---- bounds

_LONGEST_NAME = 200  # characters: Bedrock's profiles have ARNs; what is longer is no name


class Caps:
    """Keeps the series few. The first names of each open attribute are kept, later ones are ``other``; closed
    attributes have their closed values. ``sources`` bounds the combinations of service, provider and model, so that
    no instrument comes near the 2,000 attribute sets after which an SDK gives up: 127 ways to break for a service, 25 causes
    for a source. Not thread-safe."""

    def __init__(
        self,
        services: int = 14,
        providers: int = 20,
        models: int = 30,
        versions: int = 30,
        sources: int = 60,
    ) -> None:
        self._limits = {SERVICE: services, PROVIDER: providers, MODEL: models, VERSION: versions}
        self._seen: dict[str, set[str]] = {key: set() for key in self._limits}
        self._sources: set[tuple[str, ...]] = set()
        self._most_sources = sources

    def fit(self, attributes: Mapping[str, str]) -> dict[str, str]:
        """The attributes under which what has ``attributes`` is counted."""
        out = {k: self._name(k, v) if k in OPEN else _closed(k, v) for k, v in attributes.items()}
        if SERVICE in out and MODEL in out:
            out |= self._source(tuple(out[k] for k in SOURCE))
        return out

    def _name(self, key: str, value: str) -> str:
        seen = self._seen[key]
        if value in seen:
            return value
        if len(seen) >= self._limits[key] or len(value) > _LONGEST_NAME or not value.isprintable():
            return OTHER
        seen.add(value)
        return value

    def _source(self, source: tuple[str, ...]) -> dict[str, str]:
        if source not in self._sources:
            if len(self._sources) >= self._most_sources:
                return {PROVIDER: OTHER, MODEL: OTHER}
            self._sources.add(source)
        return {}


def _closed(key: str, value: str) -> str:
    return value if value in VALUES[key] else OTHER
