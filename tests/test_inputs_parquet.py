"""Parquet tables: a text that stands in many rows is written once, and never unfolds to more than a machine can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as written

from otel_ctx.errors import InputError
from otel_ctx.inputs import Skipped, parquet, read
from otel_ctx.model import Span

MODEL, WORDS = "attributes.llm.model_name", "attributes.words"
Read = tuple[list[Span], list[tuple[str, str]]]


def table(words: list[Any]) -> pa.Table:
    ids = range(1, len(words) + 1)
    return pa.table({
        "name": [f"span {n}" for n in ids],
        "context.span_id": [f"{n:016x}" for n in ids],
        "context.trace_id": ["ab" * 16] * len(words),
        MODEL: ["gpt-x"] * len(words),
        WORDS: words,
    })  # fmt: skip


def read_back(path: Path, rows: pa.Table, **how: Any) -> Read:
    """Spans, and (where in the file, why) of what was not read."""
    written.write_table(rows, path, **{"compression": "zstd", **how})
    spans, skipped = list[Span](), list[Skipped]()
    for batch in read([path]):
        spans += batch.spans
        skipped += batch.skipped
    return spans, [(s.where.removeprefix(str(path)), s.why) for s in skipped]


def test_a_text_that_stands_in_many_rows_is_a_bomb_by_its_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_MODEST", 10 << 20)
    monkeypatch.setattr(parquet, "_RATIO", 100)
    monkeypatch.setattr(parquet, "_AT_ONCE", 1 << 20)
    spans, skipped = read_back(tmp_path / "t", table(["x" * (3 << 20)] * 64))
    assert [s.name for s in spans] == ["span 1", "span 2", "span 3"]
    why = "it unfolds to more than 100 times the size of the file: only what comes before that was read"
    assert skipped == [(", row 4", why)]


def test_a_row_group_that_is_a_bomb_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_MODEST", 1 << 20)
    monkeypatch.setattr(parquet, "_RATIO", 100)
    rows = table(["short", "x" * (4 << 20), "short too"])
    spans, skipped = read_back(tmp_path / "t", rows, row_group_size=1)
    assert [s.name for s in spans] == ["span 1", "span 3"]
    assert skipped == [(", row group 2", "it unfolds to more than 100 times the size of the file")]


def test_a_row_that_unfolds_to_more_than_may_lie_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "LONGEST", 250_000)
    monkeypatch.setattr(parquet, "_AT_ONCE", 1_000)
    spans, skipped = read_back(tmp_path / "t", table([["one"], ["x" * 1_000] * 300, ["three"]]))
    assert [s.name for s in spans] == ["span 1", "span 3"]
    assert skipped == [(", row 2", parquet.OVERLONG)]


def test_values_that_take_no_place_in_the_file_take_some_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "LONGEST", 250_000)
    with pytest.raises(InputError, match=r"row group 1: longer than"):
        read_back(tmp_path / "t", table([[None, "a"] * 50_000]))


def test_a_table_of_something_else_with_columns_of_any_kind_is_no_damaged_one(tmp_path: Path) -> None:
    kinds = {
        "m": pa.map_(pa.string(), pa.list_(pa.string())),
        "d": pa.duration("s"),
        "l": pa.large_list(pa.int64()),
    }
    values: dict[str, list[Any]] = {"m": [[("a", ["b"])], None], "d": [1, None], "l": [[1], None]}
    columns = {name: pa.array(values[name], kind) for name, kind in kinds.items()}
    with pytest.raises(InputError, match="no telemetry of a known format"):
        read_back(tmp_path / "t", pa.table(columns))
    rows = table(["one", "two"])
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    spans, skipped = read_back(tmp_path / "t", rows)
    assert (len(spans), skipped) == (2, [])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.list_(pa.string())])
@pytest.mark.parametrize("encoding", ["dictionary", "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_are_the_same_in_every_encoding(
    kind: pa.DataType, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_AT_ONCE", 500)
    words = [None if n % 7 == 3 else f"said {n % 5} times, and more" for n in range(150)]
    given = [None if w is None else [w, "again"] for w in words] if pa.types.is_list(kind) else words
    rows = table(given)
    rows = rows.set_column(4, WORDS, pa.array(given, pa.string() if kind == pa.binary() else kind).cast(kind))
    column = f"{WORDS}.list.element" if pa.types.is_list(kind) else WORDS
    how: dict[str, Any] = {"use_dictionary": encoding == "dictionary"}
    if encoding != "dictionary":
        how["column_encoding"] = {column: encoding}
    spans, skipped = read_back(tmp_path / "t", rows, **how)
    assert (len(spans), skipped) == (150, [])
    assert [s.attributes.get("words") for s in spans] == given
