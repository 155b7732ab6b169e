"""What a dialect reader says of one record: nothing is counted yet, and nothing merged.

Named tuples: several are made of each record, as often out of another one, and a dataclass takes five times as long for that.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from otel_ctx.model.values import Kind, Reason, Record


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


class UsageClaim(NamedTuple):
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
    # that the input, or what was read of the cache, stands there and is no number, in words
    unreadable: str = ""
    damaged: bool = False  # counts of it may be lost or cannot be read: an absent one is not 0
    guessed: bool = False  # nobody vouches for the names: not even OpenTelemetry's convention may be assumed


class Diagnosis(NamedTuple):
    """The provider's own word on why its cache was missed, and how many tokens it puts down to that."""

    reason: str
    tokens: int | None = None


class Telling(NamedTuple):
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
    service_tier: str = ""  # "standard", "batch", "flex", "priority" …: what the request was billed as
    stateless: bool = False  # the API that was called keeps no history: each request holds all of it
    parameters: tuple[tuple[str, str], ...] = ()  # settings that are part of a cached prefix: (name, digest)
    diagnosis: Diagnosis | None = None
    # the content: these four stand side by side, ``without_content`` cuts them out as one
    tools: Raw | None = None
    system: Raw | None = None
    messages: Raw | None = None
    output: Raw | None = None
    reasons: frozenset[Reason] = frozenset()
    # sections known to be absent or damaged: "tools", "system", "messages", "head"
    lost: frozenset[str] = frozenset()
    cut_by: str = ""  # the dump's format, where it has kept content only in part
    order: int = 0
    where: str = ""
    record: Record = "span"
    compacted: bool = False  # a summary stands for what was said before
    sums_up: bool = False  # the request asks for such a summary
    request_id: str = ""  # the application's or a gateway's: the answer may be told elsewhere
    ids: tuple[tuple[str, str], ...] = ()  # (name, id) that a log gives this one request, whatever they name
    thread: str = ""  # the run or session whose pieces make up this prompt
    news: Literal["", "added", "all"] = ""  # ``messages`` are what is new in the thread, or all it has now
    names: tuple[tuple[str, str], ...] = ()  # (section, name) of content that is told once, and named then
    in_pieces: bool = False  # each tool has attributes of its own, on a span that has dropped some
    guess: tuple[str, ...] = ()  # of a guessed telling: "messages: NAME", what was taken for what, no value

    @property
    def contents(self) -> list[Any]:
        """The raw values that are there."""
        raws = self.tools, self.system, self.messages, self.output
        return [raw.value for raw in raws if raw is not None]

    def without_content(self, tools: Raw | None) -> Telling:
        """Its raw values let go, ``tools`` in the place of the tools."""
        # of each telling, so without the fifty names that ``_replace`` looks up
        return Telling._make((*self[: _CONTENT.start], tools, None, None, None, *self[_CONTENT.stop :]))


_CONTENT = slice(Telling._fields.index("tools"), Telling._fields.index("output") + 1)
