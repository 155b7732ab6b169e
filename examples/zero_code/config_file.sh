#!/bin/sh
# OpenTelemetry set up by a file, which names otel_ctx.
export OTEL_CONFIG_FILE="$(dirname "$0")/otel.yaml"
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only
exec opentelemetry-instrument python "$(dirname "$0")/agent.py"
