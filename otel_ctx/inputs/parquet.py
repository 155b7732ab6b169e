"""Parquet tables, a row a JSON document: a dataframe of spans as it was saved. Needs the extra ``parquet``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from otel_ctx.inputs.interface import BUFFER, LONGEST, OVERLONG, Envelope, Inner, Skipped, needs

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_ROWS = 64  # that are unfolded at once: one can hold a long prompt


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        skipped.append(Skipped(where, needs("parquet")))
        return
    if not stream.seekable():
        data = stream.read(LONGEST + 1)
        if len(data) > LONGEST:
            skipped.append(Skipped(where, f"a table in a pipe, {OVERLONG}"))
            return
        stream = io.BytesIO(data)
    try:
        table = parquet.ParquetFile(stream)
        groups = [table.metadata.row_group(i).total_byte_size for i in range(table.num_row_groups)]
    except (pa.ArrowException, OSError, ValueError) as error:
        skipped.append(Skipped(where, f"no parquet that can be read ({type(error).__name__})"))
        return
    readable = [i for i, size in enumerate(groups) if size <= LONGEST]
    if len(readable) < len(groups):
        skipped.append(Skipped(where, f"{len(groups) - len(readable)} row groups {OVERLONG}"))
    rows = table.iter_batches(_ROWS, row_groups=readable, use_threads=False)
    yield Inner(where, io.BufferedReader(_Lines(rows, pa.ArrowException, where, skipped), BUFFER))


class _Lines(io.RawIOBase):
    """The rows as lines of JSON. Damage is noted and ends them."""

    def __init__(
        self, batches: Iterator[Any], damage: type[Exception], where: str, skipped: list[Skipped]
    ) -> None:
        self._batches, self._damage, self._where, self._skipped = batches, damage, where, skipped
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if not self._rest:
            self._rest = self._next()
        data, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(data)] = data
        return len(data)

    def _next(self) -> bytes:
        try:
            batch = next(self._batches, None)
            return b"".join(map(_line, _rows(batch))) if batch is not None else b""
        except (self._damage, OSError, ValueError, TypeError) as error:
            self._batches = iter(())
            why = f"the table is damaged ({type(error).__name__}): only what comes before that was read"
            self._skipped.append(Skipped(self._where, why))
            return b""


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Times as nanoseconds: Python's own have none."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("ns")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    names = batch.schema.names
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        yield dict(zip(names, values, strict=True))


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, default=_text, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


ENVELOPE = Envelope("parquet", lambda head: head.startswith(b"PAR1"), _open)
