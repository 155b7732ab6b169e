"""The Collector's ``file`` exporter where it writes no plain lines."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import zstandard

from otel_ctx.model import LogRecord, Span
from tests.writers import otlp


def _framed(messages: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)


def json_zstd(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return zstandard.ZstdCompressor().compress(otlp.json_lines(spans, logs))


def json_zstd_legacy(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    packer = zstandard.ZstdCompressor()
    return _framed(packer.compress(otlp.dumps(request)) for request in otlp.requests(spans, logs))


def proto(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return _framed(message.SerializeToString() for message in otlp.messages(spans, logs))


def proto_zstd_legacy(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    packer = zstandard.ZstdCompressor()
    return _framed(packer.compress(m.SerializeToString()) for m in otlp.messages(spans, logs))
