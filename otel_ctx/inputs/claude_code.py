"""Claude Code's transcripts: ``~/.claude/projects/FOLDER/SESSION.jsonl`` and ``SESSION/subagents/agent-ID.jsonl``, also what
``claude -p --output-format stream-json`` prints.

A message of the model is several rows, one a block, each with the usage so far: they are one call, with the last usage.
Since 2.1 a journal holds each request: its settings (``api-request-shape``), its messages (``api-request-blob``) and what of
an earlier request it goes on with (``api-request``). The prompt that comes of it is that of the wire, but for a header before
the system prompt. Where there is no journal, the messages are those of the rows above, and system prompt, tools and
what the client adds to messages are not known. Observed: 2.0.77 and 2.1.332.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_ctx.inputs.exchanges import exchange, nanoseconds, told
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.model import Span

NAME = "claude-code"

_ROWS = (
    "uuid",
    "parentUuid",
    "message",
    "operation",
    "leafUuid",
    "snapshot",
    "cwd",
    "version",
    "mode",
    "subtype",
)
_SYNTHETIC = "<synthetic>"  # the model of what the client says itself
_SUBAGENT = "subagent"
_KEPT = 16  # histories that are kept, for those that go on with them

Json = Mapping[str, Any]


@dataclass(slots=True)
class _Message:
    """One answer of the model: the rows that tell of it, folded."""

    id: str
    where: str
    session: str
    agent: str
    parent: str  # the row before it
    request: str  # its entry in the journal
    model: str = ""
    usage: Any = None
    content: list[Any] = field(default_factory=list)
    start: int = 0
    end: int = 0
    compacted: bool = False
    named: bool = False  # a later request names it by its hash

    @property
    def spoken(self) -> Json:
        return {"role": "assistant", "content": self.content}


@dataclass(frozen=True, slots=True)
class _Row:
    parent: str
    message: Any  # what a user or a tool said
    answer: _Message | None
    time: int


@dataclass(frozen=True, slots=True)
class _Request:
    """An entry of the journal. ``messages`` are hashes: the first ``keep`` of request ``base``, and then ``tail``."""

    base: str
    keep: int
    tail: tuple[str, ...]
    shape: str
    model: str
    reserve: Any
    markers: tuple[Any, ...]
    time: int


def claims(value: Any) -> bool:
    """A row of a session. Of the first rows of a file not all have an id of their own."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    session = value.get("sessionId") or value.get("session_id")
    if isinstance(session, str):
        return any(key in value for key in _ROWS)
    return "leafUuid" in value or "isSnapshotUpdate" in value or isinstance(value.get("isSidechain"), bool)


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    """A call for each answer, when all is read: the last rows of an answer may come late."""
    session = _Session(source)
    for item in items:
        if isinstance(item.value, dict):
            session.take(item.value, item.where)
        else:
            skipped.append(Skipped(item.where, "no row of a session"))
    yield from told(session.spans(), source)


class _Session:
    """What the rows of one file say."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._rows: dict[str, _Row] = {}
        self._answers: dict[tuple[str, str, str], _Message] = {}
        self._shapes: dict[str, Json] = {}
        self._blobs: dict[str, Json] = {}
        self._named: dict[str, _Message] = {}  # answers by the hashes that requests name them by
        self._requests: dict[str, _Request] = {}
        self._compacted: set[tuple[str, str]] = set()  # threads whose next answer follows a summary
        self._histories: dict[str, list[Any]] = {}
        self._hashes: dict[str, list[str]] = {}

    def take(self, row: Json, where: str) -> None:
        match row.get("type"):
            case "assistant":
                self._answered(row, where)
            case "api-request":
                self._requested(row)
            case "api-request-shape" if isinstance(row.get("shape"), dict):
                self._shapes[_text(row, "shapeHash")] = row["shape"]
            case "api-request-blob" if isinstance(row.get("message"), dict):
                self._blobs[_text(row, "hash")] = row["message"]
            case "system" if row.get("subtype") == "compact_boundary":
                self._compacted.add(self._thread(row))
                self._remember(row, None, None)
            case _:
                if row.get("isCompactSummary"):
                    self._compacted.add(self._thread(row))
                spoken = row.get("message") if row.get("type") == "user" else None
                self._remember(row, spoken if isinstance(spoken, dict) else None, None)

    def spans(self) -> Iterator[Span]:
        agents: set[tuple[str, str]] = set()
        for message in self._answers.values():
            trace, agent = message.session, message.agent
            if agent and (trace, agent) not in agents:  # it stands below its session
                agents.add((trace, agent))
                yield exchange(trace, agent, message.where, 0, 0, trace)
            yield self._span(message)

    # ---- rows

    def _answered(self, row: Json, where: str) -> None:
        said = row.get("message")
        if not isinstance(said, dict) or said.get("model") == _SYNTHETIC or row.get("isApiErrorMessage"):
            self._remember(row, None, None)
            return
        uuid, id_ = _text(row, "uuid"), _text(said, "id")
        if uuid and uuid in self._rows:
            return  # copied within the file
        session, agent = self._thread(row)
        key = (session, agent, id_ or uuid or where)
        message = self._answers.get(key)
        if message is None:
            above = self._rows.get(_text(row, "parentUuid"))
            message = self._answers[key] = _Message(
                id=id_ or uuid or where,
                where=where,
                session=session,
                agent=agent,
                parent=_text(row, "parentUuid"),
                request=_text(row, "requestRef"),
                compacted=(session, agent) in self._compacted,
            )
            asked = self._requests.get(message.request)
            message.start = asked.time if asked is not None else above.time if above is not None else 0
            self._compacted.discard((session, agent))
        time = nanoseconds(row.get("timestamp"))
        message.start = message.start or time
        message.end = max(message.end, time)
        message.model = _text(said, "model") or message.model
        if isinstance(usage := said.get("usage"), dict):
            printed = "session_id" in row  # with the numbers of the moment at which the answer began
            message.usage = {k: v for k, v in usage.items() if k != "output_tokens"} if printed else usage
        blocks = said.get("content")
        for block in blocks if isinstance(blocks, list) else [blocks] if blocks else []:
            if block not in message.content:
                message.content.append(block)
        self._remember(row, None, message)

    def _requested(self, row: Json) -> None:
        params, tail = row.get("params"), row.get("tail")
        params = params if isinstance(params, dict) else {}
        keep, markers = row.get("keep"), row.get("cacheControl")
        request = _Request(
            base=_text(row, "base"),
            keep=keep if isinstance(keep, int) and keep > 0 else 0,
            tail=tuple(h for h in tail if isinstance(h, str)) if isinstance(tail, list) else (),
            shape=_text(row, "shapeHash"),
            model=_text(params, "model"),
            reserve=params.get("max_tokens"),
            markers=tuple(markers) if isinstance(markers, list) else (),
            time=nanoseconds(row.get("timestamp")),
        )
        self._requests[_text(row, "id")] = request
        self._name(request)

    def _name(self, request: _Request) -> None:
        """Hashes of no blob are the model's own answers: the newest ones that no request has named yet, in order."""
        unknown = [h for h in request.tail if h not in self._blobs and h not in self._named]
        if not unknown:
            return
        newest: list[_Message] = []
        for message in reversed(self._answers.values()):
            if len(newest) == len(unknown):
                break
            if not message.named and message.request:
                newest.append(message)
        if len(newest) == len(unknown):
            for name, message in zip(unknown, reversed(newest), strict=True):
                self._named[name], message.named = message, True

    def _remember(self, row: Json, spoken: Json | None, answer: _Message | None) -> None:
        uuid = _text(row, "uuid")
        if uuid:
            parent = _text(row, "parentUuid")
            self._rows[uuid] = _Row(parent, spoken, answer, nanoseconds(row.get("timestamp")))

    def _thread(self, row: Json) -> tuple[str, str]:
        """(session, agent): whose row it is, "" for the main agent. A row of a copy names the session that it is from."""
        copied = row.get("forkedFrom")
        session = _text(copied, "sessionId") if isinstance(copied, dict) else ""
        session = session or _text(row, "sessionId") or _text(row, "session_id") or self._source
        if calling := _text(row, "parent_tool_use_id"):
            return session, calling
        if not row.get("isSidechain"):
            return session, ""
        return session, _text(row, "agentId") or self._root(row) or _SUBAGENT

    def _root(self, row: Json) -> str:
        """The row that a chain begins with: all that told one sub-agent from another before they had ids."""
        uuid, parent = _text(row, "uuid"), _text(row, "parentUuid")
        seen: set[str] = set()
        while parent in self._rows and parent not in seen:
            seen.add(parent)
            uuid, parent = parent, self._rows[parent].parent
        return uuid

    # ---- prompts

    def _span(self, message: _Message) -> Span:
        body, lost = self._journaled(message.request)
        if body is None:
            body = {"model": message.model, "messages": self._history(message.parent)}
            lost = {"tools", "system", "messages"}
        return exchange(
            message.session,
            message.id,
            message.where,
            message.start,
            message.end,
            message.agent or message.session,
            dialect=NAME,
            request=body,
            response={
                "id": message.id,
                "model": message.model,
                "content": message.content,
                "usage": message.usage,
            },
            conversation=message.agent or message.session,
            agent=_SUBAGENT if message.agent else None,
            lost=tuple(sorted(lost)),
            reasons=("not_captured",),
            compacted=message.compacted or None,
        )

    def _journaled(self, id_: str) -> tuple[dict[str, Any] | None, set[str]]:
        """The body of a request out of the journal, and the sections that are not whole in it."""
        request = self._requests.get(id_)
        if request is None:
            return None, set()
        lost = {"system"}
        shape = self._shapes.get(request.shape)
        if shape is None:
            lost.add("tools")
        messages = []
        for name in self._hashes_of(id_):
            answer = self._named.get(name)
            message = self._blobs.get(name) or (answer.spoken if answer is not None else None)
            if message is None:
                lost.add("messages")
            else:
                messages.append(message)
        body = {
            "model": request.model,
            "max_tokens": request.reserve,
            "system": shape.get("system") if shape is not None else None,
            "tools": shape.get("tools") if shape is not None else None,
            "messages": messages,
        }
        if "messages" not in lost:
            for marker in request.markers:
                _mark(body, marker)
        return body, lost

    def _hashes_of(self, id_: str) -> list[str]:
        """The hashes of all messages of a request."""
        links: list[_Request] = []
        known: list[str] = []
        seen: set[str] = set()
        at = id_
        while (request := self._requests.get(at)) is not None and at not in seen:
            if at in self._hashes:
                known = self._hashes[at]
                break
            seen.add(at)
            links.append(request)
            at = request.base
        for request in reversed(links):
            known = [*known[: request.keep], *request.tail]
        _keep(self._hashes, id_, known)
        return known

    def _history(self, uuid: str) -> list[Any]:
        """The messages of the rows from the start of a conversation (or its summary) to ``uuid``."""
        rows: list[_Row] = []
        known: list[Any] = []
        seen: set[str] = set()
        at = uuid
        while (row := self._rows.get(at)) is not None and at not in seen:
            if at in self._histories:
                known = self._histories[at]
                break
            seen.add(at)
            rows.append(row)
            at = row.parent
        history = list(known)
        for row in reversed(rows):
            if row.message is not None:
                history.append(row.message)
            elif row.answer is not None and (not history or history[-1] is not row.answer):
                history.append(row.answer)
        _keep(self._histories, uuid, history)
        return [m.spoken if isinstance(m, _Message) else m for m in history]


def _keep(kept: dict[str, list[Any]], key: str, value: list[Any]) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _mark(body: dict[str, Any], marker: Any) -> None:
    """Put a breakpoint back at its place, in copies: what it marks is shared with other requests."""
    path = marker.get("path") if isinstance(marker, dict) else None
    if not isinstance(path, list) or not path:
        return
    node: Any = body
    for n, step in enumerate(path):
        try:
            inner = node[step]
        except (KeyError, IndexError, TypeError):
            return
        if isinstance(inner, str) and step == "content":
            inner = [{"type": "text", "text": inner}]
        if not isinstance(inner, (dict, list)):
            return
        node[step] = inner = inner.copy()
        if n == len(path) - 1 and isinstance(inner, dict):
            inner["cache_control"] = marker.get("value")
        node = inner


def _text(row: Json, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


FORMAT = StreamFormat(NAME, claims, read)
