"""Every format that can be read. A new one is a module that exports a value of one of the kinds in ``interface``, and one line
here."""

from __future__ import annotations

from otel_ctx.inputs import (
    answers,
    claude_code,
    cloudwatch,
    codex,
    collector_file,
    compression,
    datadog,
    flat_span,
    gemini_cli,
    jaeger,
    js_console,
    js_json,
    langfuse,
    opencode,
    otlp_json,
    otlp_protobuf,
    parquet,
    phoenix,
    python_console,
    raw_requests,
    utf16,
    zipkin,
)
from otel_ctx.inputs.interface import Envelope, Format, Wrapping

# Asked in this order; JSON comes after all that is known by its bytes.
FORMATS: tuple[Format, ...] = (
    compression.GZIP,
    compression.ZSTD,
    utf16.ENVELOPE,
    collector_file.ENVELOPE,
    cloudwatch.ENVELOPE,
    parquet.ENVELOPE,
    otlp_protobuf.FORMAT,
    otlp_json.FORMAT,
    python_console.FORMAT,
    js_console.FORMAT,
    js_json.FORMAT,
    phoenix.SPANS,
    phoenix.ROWS,
    jaeger.FORMAT,
    langfuse.FORMAT,
    zipkin.FORMAT,
    datadog.FORMAT,
    answers.TEMPO,
    answers.JAEGER,
    answers.PAGE,
    flat_span.FLAT,
    claude_code.FORMAT,
    codex.FORMAT,
    gemini_cli.FORMAT,
    opencode.FORMAT,
    raw_requests.FORMAT,
)

_NAMED = {known.name: known for known in FORMATS if not isinstance(known, (Envelope, Wrapping))}


def format_names() -> tuple[str, ...]:
    """What ``read(format=…)`` may be given."""
    return tuple(_NAMED)


def format_named(name: str) -> Format | None:
    return _NAMED.get(name)
