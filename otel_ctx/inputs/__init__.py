"""Everything that arrives -> Span and LogRecord. One module a format; what it is, is told from the content."""

from __future__ import annotations

from otel_ctx.inputs.formats import FORMATS, format_names
from otel_ctx.inputs.interface import Batch, Skipped
from otel_ctx.inputs.reading import read, total_size
from otel_ctx.inputs.store import Store

__all__ = ["FORMATS", "Batch", "Skipped", "Store", "format_names", "read", "total_size"]
