"""Parquet tables, a row a JSON document: a dataframe of spans as it was saved. Needs the extra ``parquet``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from otel_ctx.inputs.interface import LONGEST, OVERLONG, Envelope, Inner, Skipped, needs
from otel_ctx.inputs.pieces import stream_of

_ROWS = 64  # that are read at once: one can hold a long prompt
_AT_ONCE = 1 << 24  # bytes of rows that are unfolded at once
_MODEST = 1 << 26  # bytes that any file may unfold to; beyond that it is a question of ratio, as with zstd
_RATIO = 10_000
_VALUE = 8  # bytes of a value in a list, however short it is written
_TEXTS = ("STRING", "NONE", "JSON", "ENUM")  # kinds of byte arrays


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
    most = max(_MODEST, _RATIO * stream.seek(0, io.SEEK_END))
    stream.seek(0)
    try:
        found = parquet.ParquetFile(stream)
        groups = [found.metadata.row_group(i) for i in range(found.num_row_groups)]
        table = parquet.ParquetFile(stream, read_dictionary=_texts(found.schema, groups))
    except (pa.ArrowException, OSError, ValueError) as error:
        skipped.append(Skipped(where, f"no parquet that can be read ({type(error).__name__})"))
        return
    rows, first = list[tuple[int, Any]](), 1
    for number, group in enumerate(groups):
        size = _size_of(group)
        if size > min(LONGEST, most):
            why = OVERLONG if size > LONGEST else _bomb()
            skipped.append(Skipped(f"{where}, row group {number + 1}", why))
        else:
            rows.append((first, table.iter_batches(_at_once(group), row_groups=[number], use_threads=False)))
        first += group.num_rows
    yield Inner(where, stream_of(_lines(rows, most, pa.ArrowException, where, skipped)))


def _size_of(group: Any) -> int:
    """Bytes of a row group in memory, texts that are written once and stand in several rows counted once."""
    columns = [group.column(i) for i in range(group.num_columns)]
    listed: int = sum(c.num_values - group.num_rows for c in columns)
    return max(int(group.total_byte_size), _VALUE * listed)


def _texts(schema: Any, groups: list[Any]) -> list[str]:
    """The columns of which each text is held once, however many rows it stands in."""
    columns = enumerate(map(schema.column, range(len(schema))))
    texts = [
        (i, c.path) for i, c in columns if c.physical_type == "BYTE_ARRAY" and c.logical_type.type in _TEXTS
    ]
    return [path for i, path in texts if not any(_is_folded(group.column(i)) for group in groups)]


def _at_once(group: Any) -> int:
    return 1 if any(_is_folded(group.column(i)) for i in range(group.num_columns)) else _ROWS


def _is_folded(column: Any) -> bool:
    """Are texts written by their lengths, or by what they have in common with those before? Each is made anew then."""
    return any(encoding.endswith("BYTE_ARRAY") for encoding in column.encodings)


def _bomb() -> str:
    return f"it unfolds to more than {_RATIO} times the size of the file"


def _lines(
    groups: list[tuple[int, Iterator[Any]]],
    most: int,
    damage: type[Exception],
    where: str,
    skipped: list[Skipped],
) -> Iterator[bytes]:
    """The rows as lines of JSON, up to ``most`` bytes; ``groups``: the number of the first row of each, and its batches.
    Damage is noted and ends them."""
    try:
        yield from _every_line(groups, most, where, skipped)
    except (damage, OSError, ValueError, TypeError) as error:
        why = f"the table is damaged ({type(error).__name__}): only what comes before that was read"
        skipped.append(Skipped(where, why))


def _every_line(
    groups: list[tuple[int, Iterator[Any]]], most: int, where: str, skipped: list[Skipped]
) -> Iterator[bytes]:
    unfolded = 0
    for first, batches in groups:
        for row, part, size in _in_parts(first, batches):
            place = f"{where}, row {row}"
            if size > LONGEST:
                skipped.append(Skipped(place, OVERLONG))
                continue
            unfolded += size
            if unfolded > most:
                skipped.append(Skipped(place, f"{_bomb()}: only what comes before that was read"))
                return
            yield from map(_line, _rows(part))


def _in_parts(first: int, batches: Iterator[Any]) -> Iterator[tuple[int, Any, int]]:
    """(number of its first row, part, what it unfolds to): as much as is unfolded at once, one row at least."""
    for batch in batches:
        parts = [batch]
        while parts:
            part = parts.pop()
            half, size = part.num_rows // 2, _bytes_of(part.columns)
            if half and size > _AT_ONCE:
                parts += (part.slice(half), part.slice(0, half))
            else:
                yield first, part, size
                first += part.num_rows


def _bytes_of(columns: Iterable[Any]) -> int:
    """What they unfold to."""
    import pyarrow as pa

    size = 0
    for column in columns:
        if pa.types.is_dictionary(column.type):
            size += sum(map(_lengths(column.dictionary), column.indices.drop_null().to_pylist()))
        elif pa.types.is_struct(column.type):
            size += _bytes_of(column.flatten())
        elif pa.types.is_map(column.type):
            pair = pa.struct([column.type.key_field, column.type.item_field])
            size += _bytes_of([column.cast(pa.list_(pair))])
        elif pa.types.is_nested(column.type):
            size += _bytes_of([column.flatten()])
        else:
            size += column.nbytes
    return size


def _lengths(texts: Any) -> Callable[[int], int]:
    """How long each of ``texts`` is: by their places, none is made for it."""
    import pyarrow as pa

    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not (large or pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return lambda _: _VALUE
    places = memoryview(texts.buffers()[1] or b"").cast("q" if large else "i")
    return lambda i: places[texts.offset + i + 1] - places[texts.offset + i]


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Times as nanoseconds: Python's own have none."""
    import pyarrow as pa

    columns = [
        column.dictionary_decode()
        if pa.types.is_dictionary(column.type)
        else column.cast(pa.timestamp("ns")).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
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
