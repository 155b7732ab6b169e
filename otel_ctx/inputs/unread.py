"""Why something is not read, and the way out; of the data only words of formats are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otel_ctx.inputs.interface import OVERLONG, Format

UNKNOWN = "no telemetry of a known format"
_OTHER = "not in the format that was named"
_METRICS = "OTLP metrics, which hold no spans"
_MESSAGES = "messages, and nothing that says which model they went to"
_AZURE = "Azure's diagnostic log, which holds numbers of requests, and neither prompts nor tokens"
EMPTY = "holds no spans"
ZIP = "a zip archive"
SQLITE = "an SQLite database"
BEHIND = "JSON stands behind other text in it"
_WAYS_OUT = {
    _METRICS: "name the file of the traces or of the logs",
    _MESSAGES: 'a request is known by its model: {"model": …, "messages": […]}',
    _AZURE: "log the bodies: a proxy in front of it does",
    ZIP: "unpack it first",
    SQLITE: "let the program export it that keeps it: opencode export SESSION > FILE",
}
FLUSHED = "is this the file that the exporter writes to, and was it flushed?"


# Only keys that are words of formats are told: any other may hold what a person wrote.
_FAMILIAR = frozenset(
    "batches data error events id items kind logs message messages metrics model name object observations records request "
    "resource response result results scope spans trace traceId traces type value values version".split()
)


def why_strange(document: Any, forced: Format | None) -> str:
    """Of a JSON value that no format claims; ``forced``: the one that was named."""
    if forced is not None:
        return f"{_OTHER}, {forced.name}"
    if not isinstance(document, dict):
        return UNKNOWN
    if "resourceMetrics" in document or "resource_metrics" in document:
        return _METRICS
    sent = document.get("messages")
    if "model" not in document and (
        (isinstance(sent, list) and sent) or {"role", "content"} <= document.keys()
    ):
        return _MESSAGES
    if _is_azure(document):
        return _AZURE
    keys = [key for key in document if key in _FAMILIAR][:4]
    return UNKNOWN + (f" (keys {', '.join(keys)})" if keys else "")


def _is_azure(document: dict[str, Any]) -> bool:
    """A record of the diagnostic settings of Azure OpenAI."""
    resource = document.get("resourceId")
    named = isinstance(resource, str) and "MICROSOFT.COGNITIVESERVICES" in resource.upper()
    return named and "category" in document and "operationName" in document


def way_out(why: str, formats: Iterable[str]) -> str:
    if why.startswith(_OTHER):
        return "name none: each is known by its content"
    if BEHIND in why:
        return "a line has to be JSON from its first character on"
    if why.startswith(UNKNOWN):
        return "known are " + ", ".join(formats)
    if OVERLONG in why:
        return "split it, a request or a span a line: jq -c '.[]' does so with a list"
    return _WAYS_OUT.get(why, FLUSHED if why == EMPTY or "cut off" in why else "")
