"""Claude Code's transcripts: ``~/.claude/projects/FOLDER/SESSION.jsonl`` and ``SESSION/subagents/agent-ID.jsonl``, also what
``claude -p --output-format stream-json`` prints.

A message of the model is several rows, one a block, each with the usage so far: they are one call, with the last usage.
Since 2.1 a journal holds each request (``claude_journal``): the prompt is that of the wire then, but for a header before
the system prompt. Where there is no journal, the messages are those of the rows above, and system prompt, tools and
what the client adds to messages are not known. Observed: 2.0.77 and 2.1.332.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_ctx.inputs.claude_journal import Journal
from otel_ctx.inputs.exchanges import exchange, told_at_the_end
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.model import Span
from otel_ctx.parts import Link, Linked, linked

NAME = "claude-code"

_ROWS = (
    "uuid",
    "parentUuid",
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
    after: _Message | None  # the answer before it
    model: str = ""
    usage: Any = None
    diagnostics: Any = None
    content: list[Any] = field(default_factory=list)
    start: int = 0
    end: int = 0
    compacted: bool = False
    named: bool = False  # a later request names it by its hash

    @property
    def sent(self) -> int:
        """A tool may have answered before the last block of what asked for it came; the next request waits for both."""
        after = self.after
        if not self.start or after is None or after.agent != self.agent:
            return self.start
        return max(self.start, after.end)

    @property
    def spoken(self) -> Json:
        return {"role": "assistant", "content": self.content}


@dataclass(frozen=True, slots=True)
class _Row:
    parent: str
    root: str  # the row that its chain begins with
    message: Any  # what a user or a tool said
    answer: _Message | None
    answered: _Message | None  # the last answer up to here
    time: int


def claims(value: Any) -> bool:
    """A row of a session. Of the first rows of a file not all have an id of their own."""
    if not _is_row(value):
        return False
    session = value.get("sessionId") or value.get("session_id")
    if isinstance(session, str):
        return isinstance(value.get("message"), dict) or any(key in value for key in _ROWS)
    return "leafUuid" in value or "isSnapshotUpdate" in value or isinstance(value.get("isSidechain"), bool)


def owns(value: Any) -> bool:
    """Rows come in many types, and in more with each version."""
    return claims(value) or (
        _is_row(value) and isinstance(value.get("sessionId") or value.get("session_id"), str)
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    """A call for each answer, when all is read."""
    return told_at_the_end(_Session(source), items, source, skipped, _is_row)


class _Session:
    """What the rows of one file say."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._rows: dict[str, _Row] = {}
        self._answers: dict[tuple[str, str, str], _Message] = {}
        self._journal = Journal()
        self._compacted: set[tuple[str, str]] = set()  # threads whose next answer follows a summary
        self._results: dict[str, Json] = {}  # of tools, by the call that they answer
        self._links: dict[str, Link | None] = {}  # what was said up to a row

    def take(self, row: Json, where: str) -> None:
        match row.get("type"):
            case "assistant":
                self._answered(row, where)
            case str(type_) if type_.startswith("api-request"):
                self._journal.take(row, reversed(self._answers.values()))
            case "system" if row.get("subtype") == "compact_boundary":
                self._compacted.add(self._thread(row))
                self._remember(row, None, None)
            case _:
                if row.get("isCompactSummary"):
                    self._compacted.add(self._thread(row))
                spoken = row.get("message") if row.get("type") == "user" else None
                spoken = spoken if isinstance(spoken, dict) else {}
                blocks = spoken.get("content")
                for block in blocks if isinstance(blocks, list) else ():
                    self._results[_result_id(block)] = block
                self._remember(row, spoken or None, None)

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
                after=above.answered if above is not None else None,
                compacted=(session, agent) in self._compacted,
            )
            message.start = self._journal.sent(message.request) or (above.time if above is not None else 0)
            self._compacted.discard((session, agent))
        time = nanoseconds(row.get("timestamp"))
        message.start = message.start or time
        message.end = max(message.end, time)
        message.model = _text(said, "model") or message.model
        if isinstance(usage := said.get("usage"), dict):
            printed = "session_id" in row  # with the numbers of the moment at which the answer began
            message.usage = {k: v for k, v in usage.items() if k != "output_tokens"} if printed else usage
        message.diagnostics = said.get("diagnostics") or message.diagnostics
        blocks = said.get("content")
        for block in blocks if isinstance(blocks, list) else [blocks] if blocks else []:
            if block not in message.content:
                message.content.append(block)
        self._remember(row, None, message)

    def _remember(self, row: Json, spoken: Json | None, answer: _Message | None) -> None:
        uuid = _text(row, "uuid")
        if uuid:
            parent = _text(row, "parentUuid")
            above = self._rows.get(parent)
            answered = answer or (above.answered if above is not None else None)
            time = nanoseconds(row.get("timestamp"))
            self._rows[uuid] = _Row(parent, self._root(row), spoken, answer, answered, time)

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
        above = self._rows.get(_text(row, "parentUuid"))
        return above.root if above is not None else _text(row, "uuid")

    # ---- prompts

    def _span(self, message: _Message) -> Span:
        body, lost = self._journal.body(message.request) or self._from_rows(message)
        return exchange(
            message.session,
            message.id,
            message.where,
            message.sent,
            message.end,
            message.agent or message.session,
            dialect=NAME,
            request=body,
            response={
                "id": message.id,
                "model": message.model,
                "content": message.content,
                "usage": message.usage,
                "diagnostics": message.diagnostics,
            },
            conversation=message.agent or message.session,
            agent=_SUBAGENT if message.agent else None,
            lost=tuple(sorted(lost)),
            reasons=("not_captured",),
            compacted=message.compacted or None,
        )

    def _from_rows(self, message: _Message) -> tuple[dict[str, Any], set[str]]:
        """What can be told of a request that is in no journal, and the sections that are not whole in it."""
        body = {"model": message.model, "messages": Linked(self._history(message.parent))}
        return body, {"tools", "system", "messages"}

    def _history(self, uuid: str) -> Link | None:
        """The messages of the rows from the start of a conversation (or its summary) to ``uuid``."""
        path: list[str] = []
        seen: set[str] = set()
        while uuid in self._rows and uuid not in self._links and uuid not in seen:
            seen.add(uuid)
            path.append(uuid)
            uuid = self._rows[uuid].parent
        link = self._links.get(uuid)
        above = self._rows.get(uuid)
        for uuid in reversed(path):
            row = self._rows[uuid]
            if row.answer is not None:
                if above is None or above.answer is not row.answer:
                    link = linked(link, row.answer.spoken)
            elif row.message is not None:
                link = self._spoken_to(link, row.message)
            self._links[uuid] = link
            above = row
        return link

    def _spoken_to(self, link: Link | None, message: Json) -> Link:
        """What a user or a tool said goes on. Of calls that ran side by side each result has a row of its own, and only one
        of these rows stands above the next answer: the others go with it."""
        asked = link.message.get("content") if link is not None else None
        ids = [b.get("id") for b in asked if isinstance(b, dict)] if isinstance(asked, list) else []
        said = message.get("content")
        given = said if isinstance(said, list) else []
        answered = {_result_id(block) for block in given}
        if link is None or not answered & set(_names(ids)):
            return linked(link, message)
        others = [self._results[i] for i in _names(ids) if i in self._results and i not in answered]
        return linked(link, {**message, "content": [*given, *others]}) if others else linked(link, message)


def _result_id(block: Any) -> str:
    id_ = block.get("tool_use_id") if isinstance(block, dict) else None
    return id_ if isinstance(id_, str) else ""


def _names(ids: list[Any]) -> list[str]:
    return [i for i in ids if isinstance(i, str) and i]


def _text(row: Json, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


FORMAT = StreamFormat(NAME, claims, read, owns=owns)
