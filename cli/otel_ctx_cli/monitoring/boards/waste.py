"""What the calls cost, what of it is waste, and why."""

from __future__ import annotations

from otel_ctx_cli.monitoring.dashboard import Board
from otel_ctx_cli.monitoring.panels import Panel, Query, Row, chart, stat, table
from otel_ctx_cli.monitoring.queries import SOURCE, increase, rate, share

_COST = "otelctx_cost_usd_total"
_WASTE = "otelctx_waste_cost_usd_total"
_WASTED = "otelctx_waste_tokens_total"
_LINES = "source_service, gen_ai_request_model, cause"

WASTE = Board(
    "otelctx-waste",
    "Waste and cost",
    "What the calls cost, what of it is waste, and why.",
    (
        Row("Money"),
        stat("Cost", "List price of the calls.", increase(_COST), "currencyUSD", width=6),
        stat(
            "Saved by caching",
            "Against the full price for every token.",
            increase("otelctx_savings_usd_total", where=f'{SOURCE}, realized="true"'),
            "currencyUSD",
            width=6,
        ),
        stat(
            "Could be saved",
            "What a stable, well-marked prefix would still save.",
            increase(_WASTE),
            "currencyUSD",
            width=6,
            steps=(("green", None), ("orange", 1), ("red", 100)),
        ),
        stat(
            "Waste an hour, now",
            "By the last minutes.",
            f"{rate(_WASTE)} * 3600",
            "currencyUSD",
            width=6,
            steps=(("green", None), ("orange", 1), ("red", 10)),
        ),
        chart(
            "Cost an hour by part",
            "Uncached input, cache reads, cache writes and output.",
            Query(f"{rate(_COST, 'part')} * 3600", "{{part}}"),
            unit="currencyUSD",
            stack="normal",
        ),
        chart(
            "Waste an hour by cause",
            "Where the avoidable money goes.",
            Query(f"{rate(_WASTE, 'cause')} * 3600", "{{cause}}"),
            unit="currencyUSD",
            stack="normal",
        ),
        Row("Tokens"),
        chart(
            "Wasted tokens by cause",
            "Tokens a second billed again that an unbroken prefix would have read, each with one cause.",
            Query(rate(_WASTED, "cause"), "{{cause}}"),
            stack="normal",
        ),
        Panel(
            "bargauge",
            "Waste by cause",
            "What it cost above the price of a read.",
            (Query(f"sort_desc({increase(_WASTE, 'cause')} > 0)", "{{cause}}"),),
            "currencyUSD",
        ),
        table(
            "Waste by service, model and cause",
            "The lines to work on, dearest first.",
            {
                ("USD", "currencyUSD"): f"{increase(_WASTE, _LINES)} > 0",
                ("Tokens", "short"): f"{increase(_WASTED, _LINES)} > 0",
            },
            width=16,
            height=9,
        ),
        chart(
            "Cost of a thousand calls",
            "By service; a rise without longer answers comes from the cache or from growth.",
            Query(
                share(
                    f"1000 * {rate(_COST, 'source_service')}", rate("otelctx_calls_total", "source_service")
                ),
                "{{source_service}}",
            ),
            unit="currencyUSD",
            width=8,
            height=9,
        ),
    ),
)
