"""What fills the context window of LLM calls, from the OpenTelemetry spans that they leave.

    report = otel_ctx.analyze("dump.jsonl")
    for finding in report.findings:
        print(finding.severity, finding.title, finding.fix)

In an application that has OpenTelemetry already: ``provider.add_span_processor(otel_ctx.ContextSpanProcessor())`` or
``otel_ctx.install()``.

The names below are the whole public surface; they load when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_ctx.context import Bands, Limits
    from otel_ctx.engine import Engine, Settings
    from otel_ctx.errors import InputError, OtelCtxError, RulesError, SettingError
    from otel_ctx.inputs import Store, read
    from otel_ctx.live.exporter import ContextSpanExporter
    from otel_ctx.live.install import install, uninstall
    from otel_ctx.live.log_records import ContextLogRecordProcessor
    from otel_ctx.live.processor import ContextSpanProcessor
    from otel_ctx.live.settings import LiveSettings
    from otel_ctx.model import Analysis, Call, Conversation, Finding, LogRecord, Reading, Span
    from otel_ctx.reports import Report, analyze

__all__ = [
    "Analysis",
    "Bands",
    "Call",
    "ContextLogRecordProcessor",
    "ContextSpanExporter",
    "ContextSpanProcessor",
    "Conversation",
    "Engine",
    "Finding",
    "InputError",
    "Limits",
    "LiveSettings",
    "LogRecord",
    "OtelCtxError",
    "Reading",
    "Report",
    "RulesError",
    "SettingError",
    "Settings",
    "Span",
    "Store",
    "analyze",
    "install",
    "read",
    "uninstall",
]

_HOMES = {
    "otel_ctx.context": ("Bands", "Limits"),
    "otel_ctx.engine": ("Engine", "Settings"),
    "otel_ctx.errors": ("InputError", "OtelCtxError", "RulesError", "SettingError"),
    "otel_ctx.inputs": ("Store", "read"),
    "otel_ctx.live.exporter": ("ContextSpanExporter",),
    "otel_ctx.live.install": ("install", "uninstall"),
    "otel_ctx.live.log_records": ("ContextLogRecordProcessor",),
    "otel_ctx.live.processor": ("ContextSpanProcessor",),
    "otel_ctx.live.settings": ("LiveSettings",),
    "otel_ctx.model": ("Analysis", "Call", "Conversation", "Finding", "LogRecord", "Reading", "Span"),
    "otel_ctx.reports": ("Report", "analyze"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
