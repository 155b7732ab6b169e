#!/bin/sh
# The command that you start your app with, behind opentelemetry-instrument: otel_ctx is found by itself.
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only
exec opentelemetry-instrument python "$(dirname "$0")/agent.py"
