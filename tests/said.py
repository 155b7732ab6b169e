"""What the analysis of a dump says of its spans and its metrics: what arrived by any way in is laid beside it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from otel_ctx.engine import LiveEngine
from otel_ctx.model import Reading, Said, Span
from otel_ctx.outputs.attributes import attributes, link
from otel_ctx.outputs.metrics import records

Ours = tuple[dict[str, Any], tuple[str, ...], list[tuple[str, str]]]
"""Attributes, kinds of the findings' events, ids of the links."""


def said_of(reading: Reading, role: Any) -> Ours:
    figures: dict[str, Any] = dict(attributes(Said(reading, (), ()), role))
    if role != "primary":
        return figures, (), []
    if reading.findings:
        figures["otelctx.findings"] = reading.findings
    to = link(reading)
    return figures, reading.findings, [] if to is None else [to]


def counted(spans: list[Span]) -> Counter[tuple[str, str]]:
    """(metric, attributes as JSON) -> what the calls add to it, each finding once a conversation."""
    engine, totals, found = LiveEngine(), Counter[tuple[str, str]](), set()
    for said, first in [*((s, True) for s in engine.feed(spans)), *((s, False) for s in engine.drain())]:
        for name, amount, labels in records(said, first=first):
            finding = (said.reading.conversation, labels.get("kind"))
            if name == "otelctx.findings" and finding in found:
                continue
            found.add(finding)
            totals[name, json.dumps(labels, sort_keys=True)] += amount
    return totals
