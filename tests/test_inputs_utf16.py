"""Text in UTF-16: read as what it stands for, in either order of its bytes, and damaged too."""

from __future__ import annotations

import codecs
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.inputs import Batch, Skipped, read
from tests.dumps import line, names, skipped, spans
from tests.writers import WRITERS

MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
TEXT = line(1, text="prüfe \U0001f642") + b"\r\n" + line(2) + b"\r\n"


def as_utf16(data: bytes, order: str = "utf-16-le") -> bytes:
    return MARKS[order] + data.decode().encode(order)


def of(data: bytes) -> list[Batch]:
    return list(read(["-"], stdin=io.BytesIO(data)))


@pytest.mark.parametrize("order", MARKS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_either_order_and_packed(order: str, pack: type[bytes]) -> None:
    batches = of(pack(as_utf16(TEXT, order)))
    assert names(batches) == ["span 1", "span 2"]
    assert spans(batches)[0].attributes == {"text": "prüfe \U0001f642"}
    assert {b.format.removesuffix("+gzip") for b in batches} == {"otlp-json+utf-16"}
    assert not skipped(batches)


@pytest.mark.parametrize(
    "name", ["python-console", "js-console", "jaeger-v1", "langfuse-trace", "flat-plain"]
)
def test_what_a_shell_redirects(name: str) -> None:
    data = WRITERS[name].write(spans(of(TEXT)), ())
    got, wanted = of(as_utf16(data)), of(data)
    assert [(s.name, s.attributes) for s in spans(got)] == [(s.name, s.attributes) for s in spans(wanted)]


@pytest.mark.parametrize("data", [as_utf16(TEXT)[:-1], as_utf16(TEXT) + "\U0001f642".encode("utf-16-le")[:2]])
def test_one_that_ends_inside_a_character(data: bytes) -> None:
    batches = of(data)
    assert names(batches) == ["span 1", "span 2"]
    assert len(skipped(batches)) == 1


def test_a_lone_half_of_a_character_is_replaced() -> None:
    data = codecs.BOM_UTF16_LE + line(1, text="a?b").decode().replace("?", "\ud83d").encode(
        "utf-16-le", "surrogatepass"
    )
    batches = of(data)
    assert spans(batches)[0].attributes["text"].startswith("a\ufffd")
    assert skipped(batches) == [Skipped("<stdin>", "bytes that are no UTF-8 were replaced by U+FFFD")]


@given(st.sampled_from(sorted(MARKS)), st.binary(max_size=200))
def test_no_bytes_behind_the_mark_make_it_fail(order: str, data: bytes) -> None:
    list(of(MARKS[order] + as_utf16(line(1) + b"\n", order)[2:] + data))
