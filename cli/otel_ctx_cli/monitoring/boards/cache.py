"""Reported, simulated and reachable prompt-cache hits, and what breaks them."""

from __future__ import annotations

from otel_ctx_cli.monitoring.dashboard import Board
from otel_ctx_cli.monitoring.panels import Query, Row, chart, stat, table
from otel_ctx_cli.monitoring.queries import RANGE, SERVICE, hit_ratio, increase, rate, share

_LOST = (("green", None), ("orange", 0.05), ("red", 0.2))
_BREAKS = "otelctx_cache_breaks_total"


def _between(above: str, below: str) -> str:
    return f"({hit_ratio(above, window=RANGE)}) - ({hit_ratio(below, window=RANGE)})"


CACHE = Board(
    "otelctx-cache",
    "Cache health",
    "Reported, simulated and reachable prompt-cache hits, and what breaks them.",
    (
        Row("Hit ratio"),
        chart(
            "Reported, simulated and reachable hit ratio",
            "Reported: what the providers say. Simulated: what the requests, as they were sent, should get. Reachable: "
            "with a stable, well-marked prefix. Simulated below reachable: the requests are to blame. Reported below "
            "simulated: the provider missed for reasons outside the request.",
            Query(hit_ratio("reported"), "reported"),
            Query(hit_ratio("simulated"), "simulated"),
            Query(hit_ratio("optimal"), "reachable"),
            unit="percentunit",
            width=16,
            least=0,
            most=1,
        ),
        stat(
            "Lost to the request",
            "Reachable less simulated hit ratio.",
            _between("optimal", "simulated"),
            "percentunit",
            steps=_LOST,
            height=8,
        ),
        stat(
            "Lost outside it",
            "Simulated less reported hit ratio.",
            _between("simulated", "reported"),
            "percentunit",
            steps=_LOST,
            height=8,
        ),
        chart(
            "Reported hit ratio by service",
            "Which service fell; the vertical lines are new versions.",
            Query(hit_ratio("reported", "source_service"), "{{source_service}}"),
            unit="percentunit",
            least=0,
            most=1,
        ),
        chart(
            "Reported hit ratio by model",
            "The same by model.",
            Query(hit_ratio("reported", "gen_ai_request_model"), "{{gen_ai_request_model}}"),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Row("Calls and tokens"),
        chart(
            "Calls by cache outcome",
            "hit: all that could be read was; partial: a part of it; miss: nothing of it; cold: nothing was there to read; "
            "ineligible: too short or not cacheable; not_reported: the provider said nothing.",
            Query(rate("otelctx_cache_calls_total", "outcome"), "{{outcome}}"),
            unit="reqps",
            stack="percent",
        ),
        chart(
            "Input tokens by cache state",
            "As reported, tokens a second.",
            Query(rate("otelctx_cache_reported_tokens_total", "state"), "{{state}}"),
            stack="normal",
        ),
        Row("Breaks"),
        chart(
            "Cache breaks by cause",
            "How many breaks a minute, and why.",
            Query(f"{rate(_BREAKS, 'break_cause', where=SERVICE)} * 60", "{{break_cause}}"),
            unit="cpm",
            stack="normal",
        ),
        chart(
            "Share of calls that break the prefix",
            "1 means: every call.",
            Query(
                share(
                    rate(_BREAKS, "source_service", where=SERVICE),
                    rate("otelctx_calls_total", "source_service", where=SERVICE),
                ),
                "{{source_service}}",
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        table(
            "Where the prefix breaks",
            "Breaks by service, kind of segment, cause and evidence (confirmed: the provider named it).",
            {
                ("Breaks", "short"): increase(
                    _BREAKS, "source_service, category, break_cause, evidence", where=SERVICE
                )
                + " > 0"
            },
            width=24,
            height=9,
        ),
    ),
)
