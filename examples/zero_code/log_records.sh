#!/bin/sh
# Prompts are recorded in log records only, and those are sent nowhere: otel_ctx hears them where they are made.
export OTEL_SERVICE_NAME=shop OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_LOGS_EXPORTER=none
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=event_only
exec opentelemetry-instrument python "$(dirname "$0")/agent.py"
