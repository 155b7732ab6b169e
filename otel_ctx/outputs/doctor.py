"""What each library in a dump gives and withholds, as data: schema ``otelctx.doctor/1``."""

from __future__ import annotations

from typing import Any

from otel_ctx.model import Analysis, Library
from otel_ctx.outputs.report import Inputs, input_of

SCHEMA = "otelctx.doctor/1"


def build(analysis: Analysis, inputs: Inputs) -> dict[str, Any]:
    """No prompt text is in it."""
    return {
        "schema": SCHEMA,
        "input": input_of(analysis, inputs),
        "libraries": [_library(library) for library in analysis.libraries],
        "unknown": [{"scope": scope, "spans": spans} for scope, spans in analysis.foreign],
    }


def _library(library: Library) -> dict[str, Any]:
    return {
        "scope": library.scope,
        "version": library.version or None,
        "dialects": list(library.dialects),
        "calls": library.calls,
        "told_again": library.again,
        "sums": library.sums,
        "gives": dict(library.gives),
        "withholds": [
            {"lost": w.lost, "title": w.title, "calls": w.calls, "fix": w.fix} for w in library.withholds
        ],
    }
