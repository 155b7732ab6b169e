#!/bin/sh
# Prompts are analysed and recorded nowhere: not on spans, not in log records.
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=no_content
export OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=otelctx
exec opentelemetry-instrument python "$(dirname "$0")/agent.py"
