"""The JSON documents of a stream -> records: each goes to the format that it is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from otel_ctx.inputs import jsontext, signs, unread
from otel_ctx.inputs.detection import claimant, inside_of, is_anothers, stream_format
from otel_ctx.inputs.interface import (
    MANY_NOTES,
    Format,
    Item,
    JsonFormat,
    Records,
    Skipped,
    StreamFormat,
    Unread,
)


def json_records(
    stream: BinaryIO, where: str, skipped: list[Skipped], forced: Format | None, head: bytes, *, text: bool
) -> Iterator[tuple[str, Records]]:
    """``text``: the stream begins as text, and not as JSON; ``head``: with what it begins."""
    passed = Unread(where, skipped)
    was_telemetry, of_a_vendor = signs.of_telemetry(head, where), signs.of_a_vendor(head)
    documents = _Documents(jsontext.documents(stream))
    for document in documents:
        if document.problem:
            foreign = text or document.problem == jsontext.NOT_JSON
            passed.add(document.first, document.last, document.problem, foreign=foreign and not was_telemetry)
            if len(skipped) >= MANY_NOTES:
                yield "", Records()
            continue
        value = document.value
        claimed = claimant(value, forced)
        known = stream_format(value, forced, claimed)
        if known is not None:
            passed.end()
            documents.put_back(document)
            del document, value
            for records in known.read(_items(documents, where, skipped, known, forced), where, skipped):
                yield known.name, records
            continue
        first, last, note, alone = document.first, document.last, document.note, document.alone
        del document
        place = where if alone else f"{where}:{first}"
        if note:
            skipped.append(Skipped(place, note))
        opened = [("", value, claimed)]
        del value
        while opened:
            # taken out and let go, so that whoever works on the records does not keep the document
            suffix, item, claimed = opened.pop()
            if isinstance(claimed, JsonFormat):
                passed.end()
                records = claimed.decode(item, place, skipped)
                del item
                yield claimed.name + suffix, records
                del records
            elif inside := inside_of(item, claimed):
                added = f"+{claimed.name}" if claimed and claimed.name else ""
                opened += ((added + suffix, value, claimant(value, forced)) for value in reversed(inside))
                del item, inside
            else:
                foreign = forced is None and not of_a_vendor
                passed.add(first, last, unread.why_strange(item, forced), alone=alone, foreign=foreign)
                if len(skipped) >= MANY_NOTES:
                    yield "", Records()
    passed.end()


class _Documents:
    """Documents of which the last may be put back."""

    def __init__(self, documents: Iterator[jsontext.Document]) -> None:
        self._documents = documents
        self._back: list[jsontext.Document] = []

    def __iter__(self) -> Iterator[jsontext.Document]:
        return self

    def __next__(self) -> jsontext.Document:
        return self._back.pop() if self._back else next(self._documents)

    def put_back(self, document: jsontext.Document) -> None:
        self._back.append(document)


def _items(
    documents: _Documents, where: str, skipped: list[Skipped], known: StreamFormat, forced: Format | None
) -> Iterator[Item]:
    """The values of documents that belong together: up to the first that is of another format. No two have one number: those
    that begin on one line are counted."""
    passed = Unread(where, skipped)
    line = count = 0
    for document in documents:
        first, last, value, problem, note, alone, *_ = document
        problem = problem or (jsontext.flaw(document) if known.strict else "")
        if not problem and forced is None and is_anothers(value, known):
            documents.put_back(document)
            break
        del document
        if problem:
            passed.add(first, last, problem, alone=alone)
            continue
        passed.end()
        place = where if alone else f"{where}:{first}"
        if note:
            skipped.append(Skipped(place, note))
        if first != line:
            line, count = first, 0
        listed, single = alone and isinstance(value, list), True
        waiting = [value]
        del value
        while waiting:
            inside = known.opens(waiting[-1])
            if inside is not None:
                waiting[-1:] = reversed(inside)
                single = False
                continue
            count += 1
            if single and count == 1:
                yield Item(str(first), place, waiting.pop())
            else:
                record = str(count) if listed else f"{first}.{count}"
                yield Item(record, f"{where}, record {record}", waiting.pop())
    passed.end()
