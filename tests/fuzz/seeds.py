"""What a fuzzer starts from: the dumps of tests/data, small ones of tests/corpus, one trace in every format; and the words
of a dictionary, in libFuzzer's form."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from otel_ctx.inputs import format_names
from otel_ctx.model import Event, Link, Span
from tests.fuzz.records import HOLDERS, attribute_keys, inner_keys, real, real_values
from tests.writers import WRITERS

TESTS = Path(__file__).parents[1]
LONGEST = 1 << 14  # bytes of a seed, and of what is made of it

_MAGIC = (
    b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"PAR1", b"PK\x03\x04", b"\x00\x00\x00\x10", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\x50\x2a\x4d\x18", b"\x0a\x10", b"\x12\x08", b"\\ud800", b"\x1b[31m", b"\xe2\x80\xae", b"NaN", b"Infinity", b"null",
    b"1e999", b"18446744073709551616", b"-1", b"9223372036854775808", b"253402300800000000000", b"2262-04-12T00:00:00Z",
    b"resource: {", b"[Object: null prototype] {", b"... 3 more items", b"[", b"{", b"]", b"}", b'"', b":", b",", b"\n", b"'",
)  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """In the form that ``target`` takes, none over ``LONGEST``."""
    return [seed for seed in _MADE[target]() if len(seed) <= LONGEST]


def dictionary() -> list[bytes]:
    """Words that no mutation would find: beginnings, keys of formats, of attributes and of messages."""
    keys = {
        key
        for dump in dumps()
        for key in re.findall(rb'"([A-Za-z_][\w.-]{1,40})"\s*:', dump)
        + re.findall(rb"^\s*(\w+): ", dump, re.MULTILINE)
    }
    words = {*_MAGIC, *keys, *(k.encode() for k in (*attribute_keys(), *inner_keys()) if len(k) < 60)}
    return sorted(word for word in words if word)


def as_dictionary(words: list[bytes]) -> str:
    return "".join(f'"{"".join(_written(byte) for byte in word)}"\n' for word in words)


def _written(byte: int) -> str:
    char = chr(byte)
    return char if 0x20 <= byte < 0x7F and char not in '"\\' else f"\\x{byte:02x}"


@cache
def dumps() -> tuple[bytes, ...]:
    """Files as users have them."""
    found = [writer.write(_trace(), ()) for writer in WRITERS.values()]
    for path in sorted((TESTS / "data").rglob("*")):
        if (path.is_file() and path.parent.name in ("dumps", "inputs")) or (
            "transcripts" in path.parts and path.is_file()
        ):
            data = path.read_bytes()
            found.append(gzip.decompress(data) if path.suffix == ".gz" else data)
    for path in sorted((TESTS / "corpus").glob("*/requests.jsonl.gz")):
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        found += [line for line in lines[:2] if len(line) < LONGEST]
    for path in sorted((TESTS / "corpus").glob("*/*s.jsonl.gz")):
        found += [
            line
            for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True)[:1]
            if len(line) < LONGEST
        ]
    return tuple(dict.fromkeys(_small(data) for data in found))


def _small(data: bytes) -> bytes:
    """Of a long one its beginning, with short texts where it is lines of JSON: a stream that ends in the middle."""
    if len(data) >= LONGEST:
        with suppress(ValueError):
            rows = [json.loads(line) for line in data.splitlines()]
            data = b"".join(json.dumps(_short(row)).encode() + b"\n" for row in rows)
    return data[: LONGEST - 2]


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:200]
    if isinstance(value, list):
        return [_short(item) for item in value[:20]]
    return {k: _short(v) for k, v in value.items()} if isinstance(value, dict) else value


def _trace() -> list[Span]:
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hello"}]}])
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.input.messages": said,
    }
    event = Event("gen_ai.user.message", 5, {"content": "hi", "n": 1})
    first = Span(
        "1" * 32,
        "1" * 16,
        "",
        "agent",
        10**18,
        10**18 + 9,
        {"a": ["x", "y"], "b": 2.5, "c": True},
        events=(event,),
    )
    link = Link("1" * 32, "1" * 16)
    last = Span(
        "1" * 32, "2" * 16, "1" * 16, "chat", 10**18 + 1, 10**18 + 5, call, 3, links=(link,), scope_name="lib",
        scope_version="1", resource={"service.name": "shop"}, status_code=2, status_message="boom",
    )  # fmt: skip
    return [first, last]


def _named() -> Iterator[bytes]:
    for n in range(len(format_names())):
        for dump in dumps()[n :: len(format_names())]:
            yield bytes((n,)) + dump
    for dump in dumps():
        yield bytes((len(dump) % len(format_names()),)) + dump


def _packed() -> Iterator[bytes]:
    for n, dump in enumerate(dumps()):
        yield bytes((n % 9, 0)) + dump
        yield bytes((n * 5 % 9, 1 + n % 255)) + dump


def _content() -> Iterator[bytes]:
    texts = [v for v in real_values() if isinstance(v, str) and v[:1] in "[{"]
    for n, text in enumerate(texts):
        yield bytes((n % len(HOLDERS), n & 1)) + text.encode("utf-8", "surrogatepass")
    for n, holder in enumerate(HOLDERS):
        for case in real():
            for value in (record.attributes.get(holder) for record in case):
                if isinstance(value, str):
                    yield bytes((n, 0)) + value.encode("utf-8", "surrogatepass")


def _spans() -> Iterator[bytes]:
    """Any bytes are records here."""
    chance = random.Random(5)
    yield from (chance.randbytes(chance.randrange(4, 400)) for _ in range(300))


_MADE = {
    "sniffed": lambda: iter(dumps()),
    "named": _named,
    "packed": _packed,
    "content": _content,
    "spans": _spans,
}
