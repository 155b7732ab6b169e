#!/bin/sh
# Without opentelemetry-instrument: initialize.py does the same from inside.
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only
exec python "$(dirname "$0")/initialize.py"
