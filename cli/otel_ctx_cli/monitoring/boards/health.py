"""Whether otel_ctx sees everything and keeps up.

No query has ``or vector(0)``: a dead otel_ctx would look like a healthy green zero. The counters stand at 0 from the
start instead.
"""

from __future__ import annotations

from otel_ctx_cli.monitoring.dashboard import Board
from otel_ctx_cli.monitoring.panels import ANY_IS_BAD, Query, Row, chart, stat
from otel_ctx_cli.monitoring.queries import JOB, STEP, increase, quantile, rate, share

_SPANS = "otelctx_self_spans_total"
_CALLS = "otelctx_calls_total"
_CAPACITY = f"otelctx_self_queue_capacity{{{JOB}}}"
_TIME = "otelctx_self_processing_duration_seconds"
_NINETY_DAYS = 90 * 86_400


def _times(q: float) -> Query:
    return Query(quantile(q, _TIME, where=JOB), f"p{q * 100:.0f}")


HEALTH = Board(
    "otelctx-self",
    "Self-health",
    "Whether otel_ctx sees everything and keeps up.",
    (
        Row("Are the numbers complete?"),
        stat("Spans a second", "Spans that arrived.", rate(_SPANS, where=JOB)),
        stat(
            "Not analysed",
            "Spans that passed without being counted. Above zero, all other dashboards are too low.",
            increase(_SPANS, where=f'{JOB}, result=~"dropped|failed"'),
            steps=ANY_IS_BAD,
        ),
        stat(
            "Unreadable",
            "Spans of model calls that could not be parsed.",
            increase(_SPANS, where=f'{JOB}, result="unreadable"'),
            steps=(("green", None), ("orange", 1)),
        ),
        stat(
            "Calls without content",
            "Share of the calls with no readable text.",
            share(increase(_CALLS, where=f'{JOB}, content=~"none|usage_only"'), increase(_CALLS, where=JOB)),
            "percentunit",
            steps=(("green", None), ("orange", 0.05), ("red", 0.5)),
        ),
        stat(
            "Age of prices and windows",
            "Older than 90 days: update otel_ctx.",
            f"max(otelctx_self_rulebook_age_seconds{{{JOB}}})",
            "s",
            steps=(("green", None), ("orange", _NINETY_DAYS)),
        ),
        stat(
            "Series overflowed",
            "Series beyond the SDK's limit; they no longer carry their labels.",
            f'count({{__name__=~"otelctx_.+", {JOB}, otel_metric_overflow="true"}}) or 0 * sum({_CAPACITY})',
            steps=ANY_IS_BAD,
        ),
        chart(
            "Spans by result",
            "analysed: a model call, counted; not_genai: passed through; duplicate: told of a call that was counted already; "
            "late: told after the call was settled; unreadable, failed, dropped: not counted.",
            Query(rate(_SPANS, "result", where=JOB), "{{result}}"),
            stack="normal",
        ),
        chart(
            "Damaged content",
            "Spans of model calls whose content arrived cut, redacted or incomplete.",
            Query(f"{rate('otelctx_self_content_lost_total', 'loss', where=JOB)} * 60", "{{loss}}"),
            unit="cpm",
            stack="normal",
        ),
        Row("Does it keep up?"),
        chart(
            "Queue",
            "Spans that wait, against how many may.",
            Query(f"sum by (instance) (otelctx_self_queue_size{{{JOB}}})", "{{instance}} waiting"),
            Query(f"sum by (instance) ({_CAPACITY})", "{{instance}} limit"),
        ),
        chart(
            "Time to analyse a span",
            "Median, 95th and 99th percentile.",
            _times(0.5),
            _times(0.95),
            _times(0.99),
            unit="s",
        ),
        chart(
            "Batches sent on",
            "By success.",
            Query(rate("otelctx_self_exports_total", "success", where=JOB), "success={{success}}"),
            unit="ops",
        ),
        chart(
            "Conversations in memory",
            "Held now, and let go early for their number.",
            Query(f"sum(otelctx_self_conversations_tracked{{{JOB}}})", "held"),
            Query(
                increase(
                    "otelctx_self_conversations_evicted_total", where=f'{JOB}, early="true"', window=STEP
                ),
                "let go early",
            ),
            interval="5m",
        ),
        chart(
            "Calls to unknown models",
            "Calls to models whose window is not known, by service: no headroom is given for them.",
            Query(
                f"{rate('otelctx_self_model_unknown_total', 'source_service', where=JOB)} * 60",
                "{{source_service}}",
            ),
            unit="cpm",
        ),
        chart(
            "Windows",
            "The window that the figures of a model are measured against.",
            Query(
                f"max by (gen_ai_request_model) (otelctx_context_window_tokens{{{JOB}}})",
                "{{gen_ai_request_model}}",
            ),
        ),
    ),
    by_source=False,
)
