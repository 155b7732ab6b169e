#!/bin/sh
# As an exporter around the one that OTELCTX_EXPORTER names (otlp, where it is not set).
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_TRACES_EXPORTER=otelctx OTELCTX_EXPORTER=otlp
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only
exec opentelemetry-instrument python "$(dirname "$0")/agent.py"
