"""The journal that Claude Code keeps in its transcripts since 2.1: each request's settings (``api-request-shape``: system
prompt and tools), its messages (``api-request-blob``, by hash), what of an earlier request it goes on with (``api-request``).

The model's own answers have hashes too, and no blob: they are the rows of the answer. Cache markers stand apart, by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.parts import Link, Linked, linked

Json = Mapping[str, Any]


class Answer(Protocol):
    """An answer of the model; ``named``: a request has named it by its hash."""

    named: bool

    @property
    def request(self) -> str: ...

    @property
    def spoken(self) -> Json: ...


@dataclass(frozen=True, slots=True)
class _Request:
    """``tail`` are the hashes of messages that follow the first ``keep`` of request ``base``."""

    base: str
    keep: int
    tail: tuple[str, ...]
    shape: str
    model: str
    reserve: Any
    markers: tuple[Any, ...]
    time: int


@dataclass(frozen=True, slots=True)
class _End:
    """The messages of a request. ``torn``: one of them is not in the journal."""

    link: Link | None = None
    torn: bool = False

    def first(self, count: int) -> _End:
        link = self.link
        while link is not None and link.length > count:
            link = link.before
        return _End(link, self.torn)

    def and_then(self, message: Json | None) -> _End:
        return _End(self.link, True) if message is None else _End(linked(self.link, message), self.torn)


class Journal:
    def __init__(self) -> None:
        self._shapes: dict[str, Json] = {}
        self._blobs: dict[str, Json] = {}
        self._answers: dict[str, Answer] = {}
        self._requests: dict[str, _Request] = {}
        self._ends: dict[str, _End] = {}

    def take(self, row: Json, answers: Iterable[Answer]) -> None:
        """A row whose type begins with ``api-request``; ``answers``: what the model has said so far, the newest first."""
        match row.get("type"):
            case "api-request-shape" if isinstance(row.get("shape"), dict):
                self._shapes[_text(row, "shapeHash")] = row["shape"]
            case "api-request-blob" if isinstance(row.get("message"), dict):
                self._blobs[_text(row, "hash")] = row["message"]
            case "api-request":
                self._requested(row, answers)

    def sent(self, id_: str) -> int:
        """When a request was sent, 0 unknown."""
        request = self._requests.get(id_)
        return request.time if request is not None else 0

    def body(self, id_: str) -> tuple[dict[str, Any], set[str]] | None:
        """The body of a request, and the sections that are not whole in it; None where it is not in the journal."""
        request = self._requests.get(id_)
        if request is None:
            return None
        shape = self._shapes.get(request.shape)
        end = self._messages(id_)
        lost = {"system"}  # the wire has a header before it
        lost |= {"tools"} if shape is None else set()
        lost |= {"messages"} if end.torn else set()
        body = {
            "model": request.model,
            "max_tokens": request.reserve,
            "system": shape.get("system") if shape is not None else None,
            "tools": shape.get("tools") if shape is not None else None,
            "messages": Linked(end.link),
        }
        if end.link is not None and not end.torn:
            _put_back(body, end.link, request.markers)
        return body, lost

    def _requested(self, row: Json, answers: Iterable[Answer]) -> None:
        params, tail = row.get("params"), row.get("tail")
        params = params if isinstance(params, dict) else {}
        keep, markers = row.get("keep"), row.get("cacheControl")
        request = self._requests[_text(row, "id")] = _Request(
            base=_text(row, "base"),
            keep=keep if isinstance(keep, int) and keep > 0 else 0,
            tail=tuple(h for h in tail if isinstance(h, str)) if isinstance(tail, list) else (),
            shape=_text(row, "shapeHash"),
            model=_text(params, "model"),
            reserve=params.get("max_tokens"),
            markers=tuple(markers) if isinstance(markers, list) else (),
            time=nanoseconds(row.get("timestamp")),
        )
        unknown = [h for h in request.tail if h not in self._blobs and h not in self._answers]
        newest: list[Answer] = []
        for answer in answers if unknown else ():
            if not answer.named and answer.request:
                newest.append(answer)
            if len(newest) == len(unknown):
                break
        if len(newest) == len(unknown):
            for hash_, answer in zip(unknown, reversed(newest), strict=True):
                self._answers[hash_], answer.named = answer, True

    def _messages(self, id_: str) -> _End:
        """The messages of a request: those of an earlier one as far as they were kept, and then its own."""
        waiting: list[tuple[str, _Request]] = []
        at = id_
        while at not in self._ends and (request := self._requests.get(at)) is not None:
            self._ends[at] = _End()  # a request that goes on with itself goes on with nothing
            waiting.append((at, request))
            at = request.base
        end = self._ends.get(at, _End())
        for name, request in reversed(waiting):
            end = end.first(request.keep)
            for hash_ in request.tail:
                answer = self._answers.get(hash_)
                end = end.and_then(self._blobs.get(hash_) or (answer.spoken if answer is not None else None))
            self._ends[name] = end
        return end


def _put_back(body: dict[str, Any], end: Link | None, markers: tuple[Any, ...]) -> None:
    """Breakpoints at their places. The messages from the first that carries one on are of this request only: in the next the
    breakpoints are elsewhere."""
    paths = [m["path"] for m in markers if isinstance(m, dict) and isinstance(m.get("path"), list)]
    marked = [p[1] for p in paths if len(p) > 1 and p[0] == "messages" and isinstance(p[1], int)]
    first = min((n for n in marked if n >= 0), default=len(body["messages"]))
    tail: list[Any] = []
    while end is not None and end.length > first:
        tail.append(end.message)
        end = end.before
    body["messages"] = dict(enumerate(reversed(tail), first))
    for marker in markers:
        _mark(body, marker)
    body["messages"] = Linked(end, tuple(body["messages"].values()))


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
