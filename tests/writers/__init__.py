"""Spans and log records -> bytes of every format that is read. ``WRITERS`` names them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from otel_ctx.model import LogRecord, Span
from tests.writers import collector, console, langfuse, otlp, phoenix, stores


class Writer(NamedTuple):
    write: Callable[[Sequence[Span], Sequence[LogRecord]], bytes]
    format: str  # as the report names it
    logs: bool = False  # it holds log records too
    scopes: bool = True  # it tells the instrumentation scopes


WRITERS: dict[str, Writer] = {
    "otlp-json-lines": Writer(otlp.json_lines, "otlp-json", logs=True),
    "otlp-json-list": Writer(otlp.json_list, "otlp-json", logs=True),
    "otlp-json-gzip": Writer(otlp.json_gzip, "otlp-json+gzip", logs=True),
    "otlp-json-js": Writer(otlp.json_numbers, "otlp-json", logs=True),
    "messagetojson-base64": Writer(otlp.message_to_json, "otlp-json", logs=True),
    "messagetojson-enumints": Writer(otlp.message_to_json_enum_ints, "otlp-json", logs=True),
    "messagetojson-snakecase": Writer(otlp.message_to_json_snake_case, "otlp-json", logs=True),
    "protobuf": Writer(otlp.protobuf, "otlp-protobuf", logs=True),
    "protobuf-gzip": Writer(otlp.protobuf_gzip, "otlp-protobuf+gzip", logs=True),
    "collector-json-zstd": Writer(collector.json_zstd, "otlp-json+zstd", logs=True),
    "collector-json-zstd-legacy": Writer(
        collector.json_zstd_legacy, "otlp-json+zstd+collector-file", logs=True
    ),
    "collector-proto": Writer(collector.proto, "otlp-protobuf+collector-file", logs=True),
    "collector-proto-zstd-legacy": Writer(
        collector.proto_zstd_legacy, "otlp-protobuf+zstd+collector-file", logs=True
    ),
    "python-console": Writer(console.python_pretty, "python-console", logs=True, scopes=False),
    "python-console-lines": Writer(console.python_lines, "python-console", logs=True, scopes=False),
    "js-console": Writer(console.javascript, "js-console", logs=True),
    "js-json": Writer(console.javascript_json, "js-json", logs=True),
    "jaeger-v1": Writer(stores.jaeger, "jaeger"),
    "jaeger-v3": Writer(stores.jaeger_v3, "otlp-json+jaeger-v3"),
    "tempo-v1": Writer(stores.tempo_v1, "otlp-json+tempo"),
    "tempo-v2": Writer(stores.tempo_v2, "otlp-json+tempo"),
    "tempo-cli": Writer(stores.tempo_cli, "otlp-json"),
    "zipkin-python": Writer(stores.zipkin_python, "zipkin"),
    "zipkin-js": Writer(stores.zipkin_javascript, "zipkin", scopes=False),
    "zipkin-collector": Writer(stores.zipkin_collector, "zipkin"),
    "datadog": Writer(stores.datadog, "datadog", scopes=False),
    "flat-typed": Writer(stores.flat_typed, "otlp-json+flat"),
    "flat-plain": Writer(stores.flat_plain, "otlp-json+flat"),
    "flat-table": Writer(stores.flat_table, "otlp-json+flat"),
    "phoenix": Writer(phoenix.spans, "phoenix", scopes=False),
    "phoenix-otlpv1": Writer(phoenix.otlpv1, "phoenix", scopes=False),
    "phoenix-dataframe": Writer(phoenix.frame_records, "phoenix-dataframe", scopes=False),
    "phoenix-dataframe-lines": Writer(phoenix.frame_lines, "phoenix-dataframe", scopes=False),
    "phoenix-dataframe-parquet": Writer(phoenix.frame_parquet, "phoenix-dataframe+parquet", scopes=False),
    "langfuse-trace": Writer(langfuse.trace, "langfuse"),
    "langfuse-observations": Writer(langfuse.observations, "langfuse"),
    "langfuse-export": Writer(langfuse.export, "langfuse"),
}
