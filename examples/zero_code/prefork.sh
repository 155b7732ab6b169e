#!/bin/sh
# A server that forks its workers: each analyses what it does itself. On port 8000, or what PORT says.
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only
cd "$(dirname "$0")" || exit
exec opentelemetry-instrument gunicorn --workers 2 --bind "127.0.0.1:${PORT:-8000}" server:app
