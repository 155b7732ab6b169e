"""What the query APIs of trace stores put round their answers. Each is opened, and what lies in it is looked at anew.

Source: Tempo's HTTP API (/api/traces of v1 and v2; tempo-cli writes plain OTLP), Jaeger's /api/v3, and the pages of
Jaeger's /api, Phoenix's and Langfuse's.
"""

from __future__ import annotations

from typing import Any

from otel_ctx.inputs.interface import Wrapping


def _is_tempo(document: Any) -> bool:
    """OTLP itself is not: it would be opened again and again where another format was named."""
    if not isinstance(document, dict) or "resourceSpans" in document:
        return False
    trace = document.get("trace")
    return isinstance(_groups(trace) if isinstance(trace, dict) else document.get("batches"), list)


def _open_tempo(document: Any) -> list[Any]:
    trace = document["trace"] if isinstance(document.get("trace"), dict) else document
    return [trace if "batches" not in trace else {"resourceSpans": trace["batches"]}]


def _groups(trace: dict[str, Any]) -> Any:
    return trace.get("batches", trace.get("resourceSpans", trace.get("resource_spans")))


def _is_jaeger(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("result"), dict):
        return False
    return "resourceSpans" in document["result"] or "resource_spans" in document["result"]


def _is_page(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("data"), list)


TEMPO = Wrapping("tempo", _is_tempo, _open_tempo)
JAEGER = Wrapping("jaeger-v3", _is_jaeger, lambda document: [document["result"]])
PAGE = Wrapping("", _is_page, lambda document: document["data"])
