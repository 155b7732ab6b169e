"""What the tests of the dialects share: a case's tellings, what a telling holds, and both in short for golden files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from otel_ctx import dialects
from otel_ctx.inputs.otlp_json import logs_of, spans_of
from otel_ctx.model import Event, LogRecord, Part, Raw, Span, Telling, UsageClaim
from otel_ctx.parts import read_messages, read_system, read_tools, unpack

if TYPE_CHECKING:
    from conftest import CorpusCase

_Record = TypeVar("_Record", Span, LogRecord)
SECTIONS = ("tools", "system", "messages", "output")
_EMPTY = Telling("", "call", "", "")._asdict()
_NO_USAGE = UsageClaim()._asdict()


def span(attributes: Mapping[str, Any], *events: Event, name: str = "n", **more: Any) -> Span:
    """A span below another one that holds ``attributes``, and nine microseconds long."""
    return Span("t", "s", "p", name, 1, 9_001, attributes, events=events, **more)


def tellings(case: CorpusCase, *of: str, hidden: bool = False) -> Iterator[Telling]:
    """What the dialects ``of`` say of a case's records (all dialects, if none is named), in the order of export.
    ``hidden``: with no scope's name on any record."""
    for said in _read(case, hidden=hidden):
        if said is not None and (not of or said.dialect in of):
            yield said


def _read(case: CorpusCase, *, hidden: bool) -> Iterator[Telling | None]:
    for request in case.traces:
        for one in spans_of(request, ""):
            yield dialects.read(_nameless(one) if hidden else one)
    for request in case.logs:
        for record in logs_of(request, ""):
            yield dialects.read_log(_nameless(record) if hidden else record)


def _nameless(record: _Record) -> _Record:
    return replace(record, scope_name="", scope_version="")


def parts(raw: Raw | None) -> list[Part]:
    """The parts of a value that a reader left unparsed; of one that was cut, those that are left."""
    if raw is None:
        return []
    value, _ = unpack(raw.value)
    if raw.shape == "tools":
        return read_tools(value)
    return read_system(value) if raw.shape == "system" else read_messages(value)[0]


def texts(raw: Raw | None) -> list[str]:
    return [p.text for p in parts(raw)]


def pairs(raw: Raw | None) -> list[tuple[str, str]]:
    """Kind and text of each part."""
    return [(p.kind, p.text) for p in parts(raw)]


def row(telling: Telling) -> dict[str, Any]:
    """All that a telling says and is not empty; its content as one line a part, with a hash in place of the text."""
    said = {k: v for k, v in telling._asdict().items() if k not in SECTIONS and v != _EMPTY[k]}
    said |= {k: sorted(said[k]) for k in ("reasons", "lost") if k in said}
    if telling.usage is not None:
        said["usage"] = {k: v for k, v in telling.usage._asdict().items() if v != _NO_USAGE[k]}
    return said | {k: lines for k in SECTIONS if (lines := [line(p) for p in parts(getattr(telling, k))])}


def line(part: Part) -> str:
    digest = hashlib.sha256(part.text.encode()).hexdigest()[:12]
    facts = (part.path, part.kind, part.role, part.name, part.call_id, part.cache_marker)
    return " ".join(str(f) or "-" for f in (*facts, len(part.text), digest))
