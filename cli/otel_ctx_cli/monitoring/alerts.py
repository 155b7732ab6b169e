"""The recording rules and the alerts. Every ratio holds its own least traffic: a quiet service alerts nobody.

The windows and thresholds are first guesses, to be changed in a copy. `docs/alerts.md` has a section for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Fires where ``expr`` meets ``condition`` for the time ``lasting``. ``board``: the uid of the dashboard to look at.

    ``severity``: critical, numbers or traces are being lost; warning, somebody should look today; info, worth knowing.
    ``lookup``: a sentence whose template asks Prometheus once more, which only Prometheus can do.
    """

    name: str
    expr: str
    condition: str
    lasting: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    description: str
    board: str
    lookup: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    rules: tuple[Record | Alert, ...]
    interval: str = ""


_BY = "sum by (job, source_service)"
_BY_PROCESS = "sum by (job, instance)"
_REPORTED = "otelctx:cache_hit_reported:ratio_rate15m"
_SIMULATED = "otelctx:cache_hit_simulated:ratio_rate15m"
_CALLS = "otelctx:calls:increase15m"
_WASTE = "otelctx:waste_cost_usd:rate1h"


def _hits(basis: str) -> str:
    metric = f"otelctx_cache_{basis}_tokens_total"
    return (
        f'{_BY} (rate({metric}{{state="read"}}[15m]))\n'
        f'  / ({_BY} (rate({metric}{{state!="unknown"}}[15m])) > 0)'
    )


def _share_of_calls(part: str, window: str, least: int) -> str:
    return (
        f"{_BY} (increase({part}[{window}]))\n"
        f"  / ({_BY} (increase(otelctx_calls_total[{window}])) >= {least})"
    )


GROUPS = (
    Group(
        "otelctx.rules",
        (
            Record(_REPORTED, _hits("reported")),
            Record(_SIMULATED, _hits("simulated")),
            Record(_CALLS, f"{_BY} (increase(otelctx_calls_total[15m]))"),
            Record(_WASTE, f"3600 * {_BY} (rate(otelctx_waste_cost_usd_total[1h]))"),
        ),
        interval="1m",
    ),
    Group(
        "otelctx.context",
        (
            Alert(
                "OtelCtxHeadroomCritical",
                f'{_BY} (otelctx_conversations{{headroom=~"critical|exceeded"}})',
                "> 0",
                "5m",
                "warning",
                "Conversations are about to fill their context window.",
                "{{ $value | humanize }} active conversation(s) of {{ $labels.source_service }} have fewer than 5 turns "
                "or 5 % of the window left.",
                "otelctx-conversation",
            ),
            # One bound has two spellings: 5 by the Collector, 5.0 by Python and Prometheus 3.
            Alert(
                "OtelCtxCallsNearWindow",
                f'{_BY} (increase(otelctx_context_headroom_turns_bucket{{le=~"5(\\\\.0)?"}}[30m]))\n'
                f"  / ({_BY} (increase(otelctx_context_headroom_turns_count[30m])) >= 20)",
                "> 0.1",
                "10m",
                "info",
                "Many model calls are made close to the end of the window.",
                "{{ $value | humanizePercentage }} of the calls of {{ $labels.source_service }} in the last 30 minutes had "
                "at most 5 turns left.",
                "otelctx-conversation",
            ),
        ),
    ),
    Group(
        "otelctx.cache",
        (
            # Against the service's own last hours: both a relative and an absolute fall.
            Alert(
                "OtelCtxCacheHitRatioCollapsed",
                _REPORTED,
                f"< 0.5 * avg_over_time({_REPORTED}[6h] offset 30m)\n"
                f"and (avg_over_time({_REPORTED}[6h] offset 30m) - {_REPORTED} > 0.2)\n"
                f"and ({_CALLS} >= 20)",
                "10m",
                "warning",
                "The prompt-cache hit ratio of a service has collapsed.",
                "The hit ratio of {{ $labels.source_service }} is {{ $value | humanizePercentage }}, under half of its last "
                "6 hours.",
                "otelctx-cache",
                'Versions running: {{ range query (printf "otelctx_source_info{source_service=%q}" '
                "$labels.source_service) }}{{ .Labels.source_version }} {{ end }}",
            ),
            # A compaction is meant, and what is unknown is nobody's fault.
            Alert(
                "OtelCtxPrefixBrokenEveryTurn",
                _share_of_calls('otelctx_cache_breaks_total{break_cause!~"compaction|unknown"}', "15m", 20),
                "> 0.7",
                "10m",
                "warning",
                "Nearly every call of a service breaks its own prompt prefix.",
                "{{ $value | humanizePercentage }} of the calls of {{ $labels.source_service }} change something that was "
                "cached.",
                "otelctx-cache",
                'Most of all: {{ with query (printf "topk(1, sum by (break_cause, category) '
                '(increase(otelctx_cache_breaks_total{source_service=%q}[15m])))" $labels.source_service) }}'
                "{{ (index . 0).Labels.break_cause }} in {{ (index . 0).Labels.category }}{{ end }}.",
            ),
            Alert(
                "OtelCtxProviderMissesUnexplained",
                f"({_SIMULATED} - {_REPORTED})",
                f"> 0.3\nand ({_CALLS} >= 20)",
                "1h",
                "info",
                "The provider reports far fewer cache hits than the requests allow.",
                "The reported hit ratio of {{ $labels.source_service }} is {{ $value | humanizePercentage }} (points) under "
                "the simulated one; the requests are not the cause.",
                "otelctx-cache",
            ),
        ),
    ),
    Group(
        "otelctx.waste",
        (
            Alert(
                "OtelCtxWasteHigh",
                _WASTE,
                "> 5",
                "15m",
                "warning",
                "A service wastes more than 5 USD an hour.",
                '{{ $labels.source_service }} wastes {{ printf "%.2f" $value }} USD an hour.',
                "otelctx-waste",
                'Dearest cause: {{ with query (printf "topk(1, sum by (cause) '
                '(rate(otelctx_waste_cost_usd_total{source_service=%q}[1h])))" $labels.source_service) }}'
                "{{ (index . 0).Labels.cause }}{{ end }}.",
            ),
            # At least 0.10 USD an hour.
            Alert(
                "OtelCtxWasteShareHigh",
                f"{_BY} (rate(otelctx_waste_cost_usd_total[6h]))\n"
                f"  / ({_BY} (rate(otelctx_cost_usd_total[6h])) >= 0.1 / 3600)",
                "> 0.3",
                "1h",
                "info",
                "More than 30 % of a service's model cost is waste.",
                "{{ $value | humanizePercentage }} of the cost of {{ $labels.source_service }} over 6 hours could be avoided.",
                "otelctx-waste",
            ),
        ),
    ),
    Group(
        "otelctx.self",
        (
            Alert(
                "OtelCtxAbsent",
                "absent(otelctx_self_spans_total)",
                "> 0",
                "10m",
                "critical",
                "No otel_ctx is reporting.",
                "The metric otelctx_self_spans_total has been missing for 10 minutes: otel_ctx is down or is not scraped.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxSpansDropped",
                f'{_BY_PROCESS} (increase(otelctx_self_spans_total{{result=~"dropped|failed"}}[10m]))',
                "> 0",
                "0s",
                "warning",
                "otel_ctx lets spans pass without counting them.",
                "About {{ $value | humanize }} spans were not analysed on {{ $labels.instance }} in 10 minutes; all numbers of "
                "tokens and cost are too low.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxExportFailing",
                f'{_BY_PROCESS} (rate(otelctx_self_exports_total{{success="false"}}[10m]))\n'
                f"  / ({_BY_PROCESS} (rate(otelctx_self_exports_total[10m])) > 0)",
                "> 0.2",
                "10m",
                "critical",
                "otel_ctx cannot send spans on.",
                "{{ $value | humanizePercentage }} of the batches of {{ $labels.instance }} fail. What is behind it gets no "
                "traces.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxQueueNearlyFull",
                f"{_BY_PROCESS} (otelctx_self_queue_size)\n"
                f"  / ({_BY_PROCESS} (otelctx_self_queue_capacity) > 0)",
                "> 0.8",
                "5m",
                "warning",
                "The span queue of otel_ctx is nearly full.",
                "The queue of {{ $labels.instance }} is {{ $value | humanizePercentage }} full.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxContentNotCaptured",
                _share_of_calls('otelctx_calls_total{content=~"none|usage_only"}', "30m", 10),
                "> 0.5",
                "15m",
                "warning",
                "Message content is missing, so nothing can be said about prompts.",
                "{{ $value | humanizePercentage }} of the calls of {{ $labels.source_service }} carry no readable content.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxContentDamaged",
                _share_of_calls('otelctx_calls_total{content="partial"}', "1h", 10),
                "> 0.2",
                "1h",
                "info",
                "Message content arrives cut, redacted or incomplete.",
                "The content of {{ $value | humanizePercentage }} of the calls of {{ $labels.source_service }} is incomplete.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxSeriesOverflow",
                'count by (job) ({__name__=~"otelctx_.+", otel_metric_overflow="true"})',
                "> 0",
                "5m",
                "warning",
                "Metrics of otel_ctx lost their labels.",
                "{{ $value }} series are beyond the SDK's limit of attribute sets.",
                "otelctx-self",
            ),
            Alert(
                "OtelCtxRulebookOld",
                "max by (job) (otelctx_self_rulebook_age_seconds)",
                "> 90 * 86400",
                "1h",
                "info",
                "The price and window tables of otel_ctx are old.",
                "They are {{ $value | humanizeDuration }} old; update otel_ctx.",
                "otelctx-self",
            ),
        ),
    ),
)

ALERTS = tuple(rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert))
RECORDS = tuple(rule for group in GROUPS for rule in group.rules if isinstance(rule, Record))
