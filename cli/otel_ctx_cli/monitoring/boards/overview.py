"""Context depth, headroom, cache and cost of every service at a glance."""

from __future__ import annotations

from otel_ctx_cli.monitoring.dashboard import Board
from otel_ctx_cli.monitoring.panels import ANY_IS_BAD, Query, Row, chart, stat, table
from otel_ctx_cli.monitoring.queries import RANGE, SERVICE, STEP, hit_ratio, increase, quantile, rate, share

_MODELS = "source_service, gen_ai_request_model"
_DEPTH = "otelctx_context_tokens"
_BANDS = {"ok": "green", "low": "yellow", "critical": "orange", "exceeded": "red", "unknown": "#808080"}
_READABLE = {"full": "green", "partial": "yellow", "usage_only": "orange", "none": "red"}

OVERVIEW = Board(
    "otelctx-overview",
    "Overview",
    "Context depth, headroom, cache and cost of every service at a glance.",
    (
        Row("Now"),
        stat(
            "Conversations active",
            "Conversations with a model call in the last minutes.",
            f"sum(otelctx_conversations{{{SERVICE}}})",
        ),
        stat(
            "Near their window",
            "Active conversations with few turns or little of the window left (low, critical) or none (exceeded).",
            f'sum(otelctx_conversations{{{SERVICE}, headroom=~"low|critical|exceeded"}})',
            steps=ANY_IS_BAD,
        ),
        stat(
            "Cache hit ratio",
            "Share of the input tokens that the providers reported as read from their cache.",
            hit_ratio("reported", window=RANGE),
            "percentunit",
            steps=(("red", None), ("orange", 0.4), ("green", 0.7)),
        ),
        stat(
            "Reachable hit ratio",
            "The same, had every prefix stayed stable and been marked well.",
            hit_ratio("optimal", window=RANGE),
            "percentunit",
        ),
        stat("Cost", "List price of the calls.", increase("otelctx_cost_usd_total"), "currencyUSD"),
        stat(
            "Share of it wasted",
            "Cost of the waste divided by the whole cost.",
            share(increase("otelctx_waste_cost_usd_total"), increase("otelctx_cost_usd_total")),
            "percentunit",
            steps=(("green", None), ("orange", 0.1), ("red", 0.25)),
        ),
        Row("Context"),
        chart(
            "Context depth",
            "Input tokens of a model call, cached ones included: median, 95th and 99th percentile. "
            "Diamonds are exemplars: click one to open its trace.",
            Query(quantile(0.5, _DEPTH), "p50"),
            Query(quantile(0.95, _DEPTH), "p95", exemplars=True),
            Query(quantile(0.99, _DEPTH), "p99"),
        ),
        chart(
            "Use of the window, p95, by service",
            "Context depth divided by the model's window.",
            Query(
                quantile(0.95, "otelctx_context_utilization_ratio", "source_service"), "{{source_service}}"
            ),
            unit="percentunit",
            steps=(("green", None), ("orange", 0.7), ("red", 0.9)),
            most=1,
        ),
        chart(
            "Active conversations by headroom",
            "low: under 20 turns left, or 80 % of the window used; critical: under 5, or 95 %; exceeded: no room; "
            "unknown: the window or the growth is not known (yet).",
            Query(f"sum by (headroom) (otelctx_conversations{{{SERVICE}}})", "{{headroom}}"),
            stack="normal",
            colours=_BANDS,
        ),
        chart(
            "What the context is made of",
            "Share of the input tokens sent, by kind of segment.",
            Query(rate("otelctx_context_segment_tokens_total", "category"), "{{category}}"),
            stack="percent",
        ),
        Row("Services"),
        table(
            "Services and models",
            "Calls, hit ratio, 95th percentile of the use of the window, cost and waste.",
            {
                ("Calls", "short"): increase("otelctx_calls_total", _MODELS),
                ("Hit ratio", "percentunit"): hit_ratio("reported", _MODELS, window=RANGE),
                ("Window p95", "percentunit"): quantile(
                    0.95, "otelctx_context_utilization_ratio", _MODELS, window=RANGE
                ),
                ("Cost", "currencyUSD"): increase("otelctx_cost_usd_total", _MODELS),
                ("Waste", "currencyUSD"): increase("otelctx_waste_cost_usd_total", _MODELS),
            },
            width=24,
        ),
        chart(
            "Findings opened",
            "Findings by kind; each kind is counted once a conversation.",
            Query(
                increase("otelctx_findings_total", "kind, severity", where=SERVICE, window=STEP),
                "{{severity}} {{kind}}",
            ),
            bars=True,
            stack="normal",
            interval="5m",
        ),
        chart(
            "Readable content",
            "Share of the calls by how much of their text could be read. What is below 'full' weakens every other panel.",
            Query(rate("otelctx_calls_total", "content"), "{{content}}"),
            stack="percent",
            colours=_READABLE,
        ),
    ),
)
