"""How deep conversations get, how fast, and which are about to end."""

from __future__ import annotations

from otel_ctx_cli.monitoring.dashboard import Board
from otel_ctx_cli.monitoring.panels import Panel, Query, Row, chart, table
from otel_ctx_cli.monitoring.queries import SERVICE, STEP, increase, quantile

_DEPTH = f"otelctx_conversation_context_tokens{{{SERVICE}}}"
_LEFT = "otelctx_context_headroom_turns"
_ROOM = "otelctx_context_headroom_tokens"
_GROWTH = "otelctx_context_growth_tokens"

CONVERSATIONS = Board(
    "otelctx-conversation",
    "Conversations",
    "How deep conversations get, how fast, and which are about to end.",
    (
        Row("All conversations"),
        Panel(
            "heatmap",
            "Context depth",
            "Calls by depth; the darker, the more.",
            (Query(increase("otelctx_context_tokens_bucket", "le", window=STEP), "{{le}}"),),
            height=9,
            interval="5m",
        ),
        chart(
            "Turns left",
            "5th and 25th percentile of the turns left at each call. The exemplars of the lower line lead to the traces of "
            "conversations that are about to end.",
            Query(quantile(0.05, _LEFT), "p5", exemplars=True),
            Query(quantile(0.25, _LEFT), "p25"),
            height=9,
        ),
        chart(
            "Tokens left",
            "5th and 25th percentile of the tokens left before the window, less the reserved output, is full.",
            Query(quantile(0.05, _ROOM), "p5", exemplars=True),
            Query(quantile(0.25, _ROOM), "p25"),
            width=8,
        ),
        chart(
            "Growth of a turn",
            "Tokens that a turn adds: median and 95th percentile.",
            Query(quantile(0.5, _GROWTH), "p50"),
            Query(quantile(0.95, _GROWTH), "p95", exemplars=True),
            width=8,
        ),
        chart(
            "Compactions",
            "Times that a history was replaced by a summary.",
            Query(
                increase("otelctx_context_compactions_total", "source_service", window=STEP),
                "{{source_service}}",
            ),
            bars=True,
            stack="normal",
            interval="15m",
            width=8,
        ),
        Row("The conversations nearest their window (the gateway's conversation gauges must be on)"),
        table(
            "Fewest turns left",
            "A bounded list; empty unless the gauges are switched on.",
            {
                ("Turns left", "short"): f"sort(otelctx_conversation_headroom_turns{{{SERVICE}}})",
                ("Depth", "short"): _DEPTH,
                ("Tokens left", "short"): f"otelctx_conversation_headroom_tokens{{{SERVICE}}}",
            },
            height=9,
            ascending=True,
        ),
        # topk() alone picks anew at every step, and draws every series that was ever on top.
        chart(
            "Growth of the ten that are deepest now",
            "Each line is one conversation.",
            Query(f"{_DEPTH} and topk(10, {_DEPTH} @ end())", "{{conversation}}"),
            height=9,
        ),
    ),
)
