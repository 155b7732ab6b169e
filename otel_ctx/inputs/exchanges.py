"""What formats that hold no spans make of a request: a span with the attributes that ``dialects.exchange`` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from otel_ctx.inputs.interface import Item, Records, Skipped
from otel_ctx.model import Span


def exchange(
    source: str, record: str, where: str, start: int, end: int, parent: str = "", **said: Any
) -> Span:
    """The span of ``record`` in ``source``; ``said``: the attributes below ``exchange.``, None left out."""
    return Span(
        trace_id=source,
        span_id=record,
        parent_id=parent,
        name="",
        start_unix_nano=start,
        end_unix_nano=max(start, end),
        attributes={f"exchange.{name}": value for name, value in said.items() if value is not None},
        where=where,
    )


class Plain(NamedTuple):
    """A record of one vendor's log as a plain one: ``request`` and ``response`` beside what names and times them.
    ``said``: what only that vendor's record says, by the names of ``exchange``. ``call``: it tells of a request to a model,
    whether or not a body is left of it; ``written``: what the request was read from, as it stood there."""

    record: dict[str, Any]
    said: Mapping[str, Any] = MappingProxyType({})
    call: bool = False
    written: tuple[Any, ...] = ()


class Session(Protocol):
    """What the rows of one file say, put together."""

    def take(self, row: dict[str, Any], where: str, /) -> None: ...

    def spans(self) -> Iterator[Span]: ...


def told_at_the_end(
    session: Session,
    items: Iterator[Item],
    source: str,
    skipped: list[Skipped],
    is_row: Callable[[Any], bool],
) -> Iterator[Records]:
    """As ``told``, when all rows have been taken: the last ones of an answer may come late."""
    for item in items:
        if is_row(item.value):
            session.take(item.value, item.where)
        else:
            skipped.append(Skipped(item.where, "no row of a session"))
    yield from told(session.spans(), source)


def told(spans: Iterator[Span], source: str) -> Iterator[Records]:
    """The requests of a session, one after the other. A session that has none yet is a session all the same."""
    empty = True
    for span in spans:
        empty = False
        yield Records((span,))
    if empty:
        yield Records((exchange(source, "session", source, 0, 0),))
