"""Compressed dumps: read to the point where they are damaged, and never more than a bomb may be."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.errors import InputError
from otel_ctx.inputs import Skipped, compression, read
from tests.dumps import line, names, skipped

Pack = Callable[[bytes], bytes]
PACKERS: dict[str, Pack] = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
each = pytest.mark.parametrize("name", PACKERS)


@each
def test_what_was_cut_off_is_read_to_its_end(name: str, write: Any) -> None:
    packed = PACKERS[name](b"\n".join(line(n, text="x" * n, other=str(n**9)) for n in range(1, 3001)))
    for keep in (0.3, 0.6, 0.9, 0.99):
        found = list(read([write("d", packed[: int(len(packed) * keep)])]))
        assert names(found) == [f"span {n}" for n in range(1, len(names(found)) + 1)]
        assert abs(len(names(found)) / 3000 - keep) < 0.3
        note = Skipped("d", f"the {name} data are cut off: only what comes before that was read")
        assert note in skipped(found)


@each
def test_several_in_a_row_and_something_else_behind(name: str, write: Any) -> None:
    one, two = (PACKERS[name](line(n) + b"\n") for n in (1, 2))
    assert names(list(read([write("d", one + two)]))) == ["span 1", "span 2"]
    found = list(read([write("d", one + b"garbage")]))
    assert names(found) == ["span 1"]
    assert "damaged" in skipped(found)[0].why
    with pytest.raises(InputError, match=f"the {name} data are"):
        list(read([write("d", one[:20])]))


@each
def test_it_unfolds_to_a_limit(name: str, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_UNPACKED", 100_000)
    path = write("bomb", PACKERS[name](line(1) + b"\n" + b" " * 200_000 + b"\n" + line(2)))
    found = list(read([path]))
    assert names(found) == ["span 1"]
    assert "more than 100000 bytes" in skipped(found)[0].why


@each
@pytest.mark.parametrize("filler", [b" ", b"\0", b"{", b"{}\n", b"\n"])
def test_a_bomb_is_told_by_its_ratio(
    name: str, filler: bytes, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_MODEST", 1 << 14)
    monkeypatch.setattr(compression, f"_{name.upper()}_RATIO", 100)
    bomb = PACKERS[name](line(1) + b"\n" + filler * ((1 << 17) // len(filler)))
    found = list(read([write("d", bomb)]))
    assert names(found) == ["span 1"]
    assert any("times its size" in note.why for note in skipped(found))


@each
def test_prompts_that_are_sent_again_are_no_bomb(
    name: str, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_MODEST", 1 << 20)
    sent = "".join(str(n**9) for n in range(6_000))
    packed = PACKERS[name](b"\n".join(line(n, text=sent[: n * 1_500]) for n in range(1, 101)))
    assert len(names(list(read([write("d", packed)])))) == 100


@each
def test_one_in_the_other(name: str, write: Any) -> None:
    packed = line(1)
    for _ in range(3):
        packed = PACKERS[name](packed)
    assert [batch.format for batch in read([write("d", packed)])] == ["otlp-json" + f"+{name}" * 3]
    for _ in range(30):
        packed = PACKERS[name](packed)
    with pytest.raises(InputError):
        list(read([write("d", packed)]))


def test_a_zstd_frame_that_readers_skip(write: Any) -> None:
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    packed = PACKERS["zstd"](line(1))
    assert names(list(read([write("d", skippable + packed + skippable)]))) == ["span 1"]


def test_a_zstd_frame_may_not_ask_for_any_memory(write: Any) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, format=zstandard.FORMAT_ZSTD1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(InputError, match="the zstd data are damaged"):
        list(read([write("d", packer.compress(line(1)) + packer.flush())]))


def test_without_the_library_the_error_names_the_extra(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("d/a", PACKERS["zstd"](line(1)))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        InputError, match=r"d/a: it needs zstd.*pip install '\.\[zstd\]' in a clone of otel-ctx$"
    ):
        list(read([path]))
    write("d/b", line(2))
    found = list(read(["d"]))
    assert names(found) == ["span 2"]
    assert [(note.where, note.why.rpartition(": ")[2]) for note in skipped(found)] == [
        ("d/a", "pip install '.[zstd]' in a clone of otel-ctx")
    ]


@given(st.sampled_from(sorted(PACKERS)), st.data())
def test_no_damage_makes_it_fail(name: str, data: st.DataObject) -> None:
    whole = bytearray(PACKERS[name](b"\n".join(line(n, text=str(n**99)) for n in range(1, 9))))
    for at in data.draw(st.lists(st.integers(4, len(whole) - 1), min_size=1, max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    assert len(unpacked(name, bytes(whole))) < 1 << 24


def unpacked(name: str, data: bytes) -> bytes:
    envelope = compression.GZIP if name == "gzip" else compression.ZSTD
    notes: list[Skipped] = []
    return b"".join(inner.stream.read() for inner in envelope.open(io.BytesIO(data), "d", notes))
