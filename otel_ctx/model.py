"""The nouns of otel_ctx, frozen. Every stage knows these and nothing of the other stages.

Times are nanoseconds since the epoch, tokens are counts, bytes are UTF-8 lengths. ``None`` means unknown, never 0.
The closed values below are the vocabulary of reports, span attributes and metric labels alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "tools", "system", "user", "assistant", "tool_call", "tool_result", "image", "file", "thinking"
]
KINDS: tuple[Kind, ...] = (
    "tools", "system", "user", "assistant", "tool_call", "tool_result", "image", "file", "thinking",
)  # fmt: skip

Status = Literal["full", "partial", "usage_only", "none"]
Reason = Literal[
    "attributes_dropped", "value_cut", "message_cut", "redacted", "not_captured", "logs_missing",
    "reference_missing", "server_side", "media_placeholder", "aggregate_only", "schema_missing",
    "unparsable", "guessed", "late",
]  # fmt: skip
Method = Literal["exact", "calibrated", "estimated", "unmeasured"]
Evidence = Literal["confirmed", "reported", "predicted", "inferred", "unknown"]
Severity = Literal["error", "warning", "info"]
Band = Literal["ok", "low", "critical", "exceeded", "unknown"]
Relation = Literal["new", "continues", "rewrites", "compacted", "forks", "repeats", "joined"]
Role = Literal["primary", "duplicate", "aggregate"]
Record = Literal["span", "request", "transcript"]
"""What tells of a call: a span (or its log records), a line of a log of requests, a coding agent's transcript."""
Outcome = Literal["hit", "partial", "miss", "cold", "ineligible", "not_reported"]

METHODS: tuple[Method, ...] = ("exact", "calibrated", "estimated", "unmeasured")
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

# ---- what arrives


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    time_unix_nano: int
    attributes: Mapping[str, Any]
    dropped_attributes: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    trace_id: str
    span_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Cut(NamedTuple):
    """What a dump's format, not the library that recorded it, has kept of some attributes only in part, or not at all."""

    format: str
    keys: frozenset[str]  # of the attributes


@dataclass(frozen=True, slots=True)
class Span:
    """One span, whatever its clothes were. Ids are lower-case hex; values are plain Python (str, bool, int,
    float, bytes, list, dict, None); ``kind`` is OTLP's number (3 = CLIENT); ``parent_id`` is "" on a root.

    A request that no span tells of is one too: of a log of requests its ids are file and record, of a transcript session
    and message; a time of 0 is not known."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Mapping[str, Any]
    kind: int = 0
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)
    status_code: int = 0
    status_message: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    cut: Cut | None = None
    where: str = ""  # "FILE:LINE" of a dump, for error messages


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record. ``name`` is the eventName field, else the ``event.name`` attribute, else ""."""

    trace_id: str
    span_id: str
    name: str
    time_unix_nano: int  # timeUnixNano, else observedTimeUnixNano, else 0
    body: Any
    attributes: Mapping[str, Any]
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)
    dropped_attributes: int = 0
    cut: Cut | None = None
    where: str = ""


# ---- what a dialect reader says of one record


class Part(NamedTuple):
    """One part of a message as it was read: the text is still here, no token is counted yet.

    ``text`` is what the provider tokenises: the text itself, a tool call's arguments or a tool's definition as
    compact JSON in the order of its keys, a tool result's text. Media carry a short reference or nothing, never base64.
    """

    kind: Kind
    role: str
    name: str  # tool or function name; of hidden thinking a hash of its signature; else ""
    path: str  # tools[2], system[0], messages[3].parts[1]
    text: str
    cache_marker: str = ""  # "" | "5m" | "1h" | "default" (a marker whose TTL was not said)
    call_id: str = ""  # of a tool call or of its result; never part of the identity
    bytes: int = -1  # of media whose data were left out; -1 = the text's own length


class Raw(NamedTuple):
    """A value that holds messages, tools or a system prompt, not yet parsed: a JSON string or nested values.
    ``shape`` is a name that ``otel_ctx.parts`` knows; the parse is done once for what is new in it."""

    shape: str
    value: Any


class Stored(NamedTuple):
    """In the place of a ``Raw``'s value: it lies elsewhere, and this is what the record says of where. It leads to the
    value itself, or to a whole request or response body that holds it."""

    reference: str


class Unseen(NamedTuple):
    """In the place of a ``Raw``'s value: a section that cannot be had, but that is the same where ``digest`` is."""

    digest: str  # 32 hex digits


@dataclass(frozen=True, slots=True)
class UsageClaim:
    """The token numbers as one record has them, with no meaning decided. ``semantics`` is the dialect's own word
    on whether ``input`` includes the cached tokens, where its documentation or code settles it."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    cache_write_5m: int | None = None
    reasoning: int | None = None
    total: int | None = None
    semantics: Literal["inclusive", "exclusive", ""] = ""
    semantics_evidence: str = ""
    zeros_omitted: bool = False  # this dialect leaves a zero cache count out: absent means 0
    output_excludes_reasoning: bool = False
    guessed: bool = False  # nobody vouches for the names: not even OpenTelemetry's convention may be assumed


class Diagnosis(NamedTuple):
    """The provider's own word on why its cache was missed, and how many tokens it puts down to that."""

    reason: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Telling:
    """What one span (or one log record) tells of a model call.

    ``role``: "call" tells of one request; "aggregate" sums or repeats several (agent, chain, step spans);
    "content" is a log record that holds content of the span it belongs to and is no call of its own; "piece" holds
    what entered a prompt of its ``thread``, or what calls refer to by name.
    ``tools``/``system``/``messages``/``output`` are unparsed; ``messages`` may hold the system prompt too.
    ``order`` counts among the content records of one span. Empty strings mean: not said.
    """

    dialect: str
    role: Literal["call", "aggregate", "content", "piece"]
    trace_id: str
    span_id: str
    parent_id: str = ""
    start_unix_nano: int = 0
    end_unix_nano: int = 0
    first_token_unix_nano: int | None = None
    scope: str = ""
    scope_version: str = ""
    service: str = ""
    agent: str = ""
    operation: str = ""
    provider: str = ""
    platform: str = ""
    request_model: str = ""
    response_model: str = ""
    response_id: str = ""
    previous_response_id: str = ""
    conversation_hint: str = ""  # gen_ai.conversation.id, session.id, thread id
    status: Literal["ok", "error", "cancelled"] = "ok"
    error: str = ""
    usage: UsageClaim | None = None
    reserve: int | None = None  # max output tokens the request reserves
    limit: int | None = None  # context window, where the span itself says it
    stateless: bool = False  # the API that was called keeps no history: each request holds all of it
    parameters: tuple[tuple[str, str], ...] = ()  # settings that are part of a cached prefix: (name, digest)
    diagnosis: Diagnosis | None = None
    tools: Raw | None = None
    system: Raw | None = None
    messages: Raw | None = None
    output: Raw | None = None
    reasons: frozenset[Reason] = frozenset()
    lost: frozenset[str] = (
        frozenset()
    )  # sections known to be absent or damaged: "tools", "system", "messages", "head"
    cut_by: str = ""  # the dump's format, where it has kept content only in part
    order: int = 0
    where: str = ""
    record: Record = "span"
    compacted: bool = False  # a summary stands for what was said before
    request_id: str = ""  # the application's or a gateway's: the answer may be told elsewhere
    thread: str = ""  # the run or session whose pieces make up this prompt
    news: Literal["", "added", "all"] = ""  # ``messages`` are what is new in the thread, or all it has now
    names: tuple[tuple[str, str], ...] = ()  # (section, name) of content that is told once, and named then
    guess: tuple[str, ...] = ()  # of a guessed telling: "messages: NAME", what was taken for what, no value


# ---- what the engine makes of it


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a prompt in the provider's order. The text is not here: ``Texts`` keeps it by ``digest``."""

    kind: Kind
    role: str
    name: str
    path: str
    bytes: int
    tokens: int | None
    method: Method
    digest: str  # 32 hex digits over kind, role, name and text: cache markers and call ids are no part of it
    cache_marker: str = ""
    call_id: str = ""
    inferred: bool = False  # restored from an earlier answer of the same conversation


ZERO = (0,) * len(KINDS)
KIND_INDEX: dict[str, int] = {k: i for i, k in enumerate(KINDS)}


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The message segments of a call: those of ``base`` (shared, not copied) and then ``new``.

    ``key`` names the content of the whole chain, system segments left out, so that equal keys mean equal histories;
    ``marks`` are the keys after each of the new segments. Sums are kept, so that a call that extends another costs
    only what is new in it.
    """

    base: Chain | None
    new: tuple[Segment, ...]
    length: int
    messages: int  # how many messages of the source they came from
    key: bytes
    marks: tuple[bytes, ...]
    tokens_by_kind: tuple[int, ...]  # in the order of KINDS
    bytes: int
    first: Segment | None  # that is not of the system prompt
    unmeasured: int  # segments without a token count
    estimated: int  # segments whose count is not exact
    marked: tuple[
        tuple[int, str], ...
    ] = ()  # (index in the chain, marker) of those that carry a cache marker

    def __iter__(self) -> Iterator[Segment]:
        links = []
        link: Chain | None = self
        while link is not None:
            links.append(link.new)
            link = link.base
        for new in reversed(links):
            yield from new

    def __len__(self) -> int:
        return self.length

    def since(self, start: int) -> list[Segment]:
        """The segments from ``start`` on, without walking what lies before."""
        links = []
        link: Chain | None = self
        end = self.length
        while link is not None and end > start:
            begin = end - len(link.new)
            links.append(link.new[max(0, start - begin) :])
            end, link = begin, link.base
        return [s for new in reversed(links) for s in new]


EMPTY_CHAIN = Chain(None, (), 0, 0, b"", (), ZERO, 0, None, 0, 0)


def grown(base: Chain, segments: Iterable[Segment], messages: int) -> Chain:
    """``base`` and then ``segments``; ``messages`` is the number of messages of the whole."""
    new = tuple(segments)
    key, marks, by_kind = base.key, [], list(base.tokens_by_kind)
    size, unmeasured, estimated = base.bytes, base.unmeasured, base.estimated
    marked = tuple((i, s.cache_marker) for i, s in enumerate(new, base.length) if s.cache_marker)
    for s in new:
        if s.kind != "system":
            key = blake2b(key + s.digest.encode(), digest_size=16).digest()
        marks.append(key)
        size += s.bytes
        if s.tokens is None:
            unmeasured += 1
        else:
            by_kind[KIND_INDEX[s.kind]] += s.tokens
            estimated += s.method != "exact"
    first = base.first or next((s for s in new if s.kind != "system"), None)
    return Chain(
        base if base.length else None, new, base.length + len(new), messages, key, tuple(marks), tuple(by_kind), size,
        first, unmeasured, estimated, base.marked + marked,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A call's segments, in the order tools, system, messages (a system message may also stand in ``messages``).

    ``counted`` is the sum of their tokens; ``exact`` says that every count is."""

    tools: tuple[Segment, ...]
    system: tuple[Segment, ...]
    messages: Chain
    counted: int = field(init=False)
    exact: bool = field(init=False)

    def __post_init__(self) -> None:
        counted, exact = sum(self.messages.tokens_by_kind), not self.messages.estimated
        for section in (self.tools, self.system):
            for s in section:
                if s.tokens is not None:
                    counted += s.tokens
                    exact = exact and s.method == "exact"
        object.__setattr__(self, "counted", counted)
        object.__setattr__(self, "exact", exact)

    def __iter__(self) -> Iterator[Segment]:
        yield from self.tools
        yield from self.system
        yield from self.messages

    def __len__(self) -> int:
        return len(self.tools) + len(self.system) + self.messages.length

    def since(self, start: int) -> list[Segment]:
        """The segments from ``start`` on."""
        head = (*self.tools, *self.system)
        if start < len(head):
            return [*head[start:], *self.messages]
        return self.messages.since(start - len(head))

    def marked(self) -> tuple[tuple[int, str], ...]:
        """(index, marker) of the segments that carry a cache marker."""
        head = (*self.tools, *self.system)
        own = tuple((i, s.cache_marker) for i, s in enumerate(head) if s.cache_marker)
        return own + tuple((i + len(head), marker) for i, marker in self.messages.marked)


@dataclass(frozen=True, slots=True)
class Completeness:
    status: Status
    reasons: tuple[Reason, ...] = ()
    lost: frozenset[str] = frozenset()  # "tools", "system", "messages", "head"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider reports them; ``input`` always includes the cached ones. ``None`` = not reported."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    semantics: Literal["inclusive", "exclusive"] | None = None  # of the numbers as they arrived
    semantics_evidence: str = ""
    cache_implied: bool = False  # a 0 of the cache that the dialect leaves out: nobody wrote it
    conflicts: tuple[str, ...] = ()  # both numbers of each contradiction, in words


@dataclass(frozen=True, slots=True)
class SpanRef:
    trace_id: str
    span_id: str
    role: Role
    scope: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One request to a model provider, told by one or several spans, counted once."""

    id: str  # "TRACE:SPAN" of the primary span; "FILE:RECORD" out of a log of requests
    spans: tuple[SpanRef, ...]
    trace_id: str
    parent_id: str
    dialect: str
    scope: str
    scope_version: str
    service: str
    agent: str
    operation: str
    status: Literal["ok", "error", "cancelled"]
    error: str
    provider: str
    platform: str
    model: str
    response_id: str
    previous_response_id: str
    conversation_hint: str
    start_unix_nano: int
    end_unix_nano: int
    first_token_unix_nano: int | None
    completeness: Completeness
    usage: Usage
    prompt: Prompt
    answer: tuple[Segment, ...]
    reserve: int | None
    limit: int | None
    parameters: tuple[tuple[str, str], ...] = ()
    diagnosis: Diagnosis | None = None
    cut_by: str = ""  # as in ``Telling``
    unassigned_bytes: int = 0
    record: Record = "span"
    compacted: bool = False
    guess: tuple[str, ...] = ()  # the evidence of a reading that no dialect vouches for, as in ``Telling``


@dataclass(frozen=True, slots=True)
class Context:
    """How full the window is at one call. ``usage`` is in tokens, cached ones included."""

    usage: int | None
    usage_method: Method
    limit: int | None
    limit_source: str  # setting | attribute | rules | observed | ""
    reserve: int
    utilization: float | None
    headroom: int | None
    headroom_turns: float | None
    growth: float | None  # tokens a turn, least squares over the last turns
    band: Band


@dataclass(frozen=True, slots=True)
class Tokens:
    """``counted`` + ``unaccounted`` = the reported input. ``factor`` turns counted tokens into the provider's
    where the count is an estimate that usage has calibrated."""

    counted: int
    unaccounted: int | None
    server_side: int | None
    method: Method
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Break:
    """The first segment at which a call stops agreeing with the call that it continues."""

    path: str
    kind: Kind
    change: Literal["modified", "added", "removed", "reordered"]
    tokens: int  # that stood after the break in the earlier call, and had to be read again
    char_offset: int | None
    index: int  # in the list of segments
    before: Segment | None
    after: Segment | None


class CacheTokens(NamedTuple):
    """A call's input by what the prompt cache does with it."""

    read: int
    write: int
    uncached: int


@dataclass(frozen=True, slots=True)
class Access:
    """What the prompt cache did with a call, and what it could have done. Tokens are the provider's own.

    ``expected``: what the cache would have read had the prompt before been kept and well marked; ``actual``: what it
    read, by the provider's word or, ``simulated``, by the rules; ``lost``: the difference where it means something.
    ``cause`` is what stood in the way whatever the text was, else what remains where the text did not change;
    ``sure``: how that is known."""

    predicted: CacheTokens | None
    reported: CacheTokens | None
    optimal: CacheTokens | None
    outcome: Outcome
    expected: int
    actual: int | None
    simulated: bool
    lost: int
    barrier: str  # a cause that no text could have helped: nothing else is to blame
    otherwise: str  # a cause that is to be named where the text does not say one
    sure: Evidence
    gap_seconds: float | None = None  # since the last use of what could have been read
    ttl_seconds: int | None = None
    note: str = ""  # what the cause rests on, in words, without prompt text
    behind: int = 0  # of ``lost``: tokens behind the last marker of the call before, which it alone would not have saved
    behind_cause: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """List price of one call in USD, between ``low`` and ``high`` where the usage leaves a class of tokens open; ``usd``
    counts what is open as the dearer one that is usual. ``parts`` add up to it. ``wasted``: of the lost tokens, above
    the price of a read; ``saved``: what the cache saved."""

    usd: float
    low: float
    high: float
    method: Literal["table", "maker", "package"]
    parts: Mapping[str, float]  # input_uncached, cache_read, cache_write, output
    wasted: float
    saved: float
    losses: Mapping[str, float] = field(default_factory=dict)  # ``wasted`` by cause


Lifetime = Literal["as_it_is", "longer", "kept_alive"]
"""Of cache entries: as they were asked for; the longer one that the provider offers; the usual one, renewed in pauses."""


@dataclass(frozen=True, slots=True)
class Savings:
    """What a conversation would save at list price with its findings fixed. ``tokens`` would be read from the cache instead of
    billed again; ``spent``: USD that it cost; ``lifetime``: that is cheapest with its pauses."""

    tokens: int
    usd: float
    spent: float
    lifetime: Lifetime

    @property
    def share(self) -> float:
        return self.usd / self.spent if self.spent else 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    severity: Severity
    title: str
    detail: str  # never prompt text
    fix: str
    calls: tuple[str, ...]
    path: str = ""
    tokens: int = 0
    usd: float | None = None  # what these tokens cost above a read; None: no price is known
    evidence: Evidence = "predicted"
    excerpt: str = ""  # the characters themselves: shown only where text may be shown


@dataclass(frozen=True, slots=True)
class NotChecked:
    check: str
    why: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What the engine says of one call."""

    call: Call
    conversation: str  # id of the conversation's first call
    turn: int
    relation: Relation
    previous: str | None  # id of the call that it continues
    shared: int  # segments that it shares with ``previous`` from the start
    context: Context
    tokens: Tokens
    break_: Break | None
    findings: tuple[str, ...] = ()  # kinds
    access: Access | None = None  # None: nothing can be said of the cache
    cause: str = (
        ""  # what cost most of the ``wasted`` tokens: a cause of the closed list, "" where nothing was lost
    )
    wasted: int = 0
    losses: tuple[tuple[str, int], ...] = ()  # (cause, tokens): each lost token once
    evidence: Evidence = "unknown"
    cost: Cost | None = None  # None: the model has no known price, or its usage was not reported
    gap: bool = False
    provisional: bool = False  # more may still come: the parent is open, content may follow in log records


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A reading with what was found at that call, as it is said at one moment: first when its span arrives
    (``reading.provisional`` where more may come), and once more when it is settled."""

    reading: Reading
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    again: bool = False  # another span tells of a call that was told before: nothing is to be counted
    usage_later: bool = False  # its usage is to be counted when it is settled, not when it is said first
    ignored: tuple[str, ...] = ()  # kinds that were found and left out, as the settings want it


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    id: str
    parent: str | None
    calls: tuple[str, ...]
    services: tuple[str, ...]
    agents: tuple[str, ...]
    models: tuple[str, ...]
    usage_peak: int | None
    usage_last: int | None
    limit: int | None
    headroom: int | None
    headroom_turns: float | None
    band: Band
    gaps: int
    joined: bool
    saved_by_restarting: int | None = (
        None  # tokens that the turns left would not send again after a fresh start
    )
    savings: Savings | None = None  # None: not known before the end of a dump, or no price is


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something that a library did not record of ``calls`` of its calls. ``lost`` is a word of the table of switches."""

    lost: str
    title: str
    calls: int
    fix: str


@dataclass(frozen=True, slots=True)
class Library:
    """What one instrumentation, in one version, wrote of model calls.

    ``calls``: how many it is the main teller of; ``again``: of how many another one is; ``sums``: its spans that sum calls up.
    ``gives``: what, and how many of its records hold it (a call's content may lie in several)."""

    scope: str
    version: str
    dialects: tuple[str, ...]
    calls: int
    again: int
    sums: int
    gives: tuple[tuple[str, int], ...]
    withholds: tuple[Withheld, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Everything that was said. ``text`` gives a segment's text by digest while it is kept."""

    readings: tuple[Reading, ...]
    conversations: tuple[Conversation, ...]
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    spans: int
    log_records: int
    orphans: int  # content records whose span never came
    unassigned_bytes: int
    foreign: tuple[
        tuple[str, int], ...
    ]  # scopes that look like a model's telemetry but that no dialect knows
    text: Callable[[str], str | None]
    ignored: tuple[tuple[str, int], ...] = ()  # (kind, calls) of findings that the settings leave out
    libraries: tuple[Library, ...] = ()
