"""Several gateways and one stream of spans, split as the Collector's load-balancing exporter would: what does it cost?

``python -m tests.gateway_split`` prints the table that stands in docs/gateway.md.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import xxhash

from otel_ctx.model import Span
from tests.gateway_rig import GatewayRig, HttpDownstream, chat, ours, request

Route = Callable[[Span], str]

SERVICES = 6
CONVERSATIONS = 10  # of each service
TURNS = 8

_SUMS = (
    "otelctx_calls_total", "otelctx_context_tokens_sum", "otelctx_context_segment_tokens_total",
    "otelctx_context_growth_tokens_sum", "otelctx_cache_reported_tokens_total", "otelctx_cache_simulated_tokens_total",
    "otelctx_cache_optimal_tokens_total", "otelctx_cache_calls_total", "otelctx_waste_tokens_total", "otelctx_cost_usd_total",
    "otelctx_findings_total",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """``sums``: of the metrics of all gateways, by name; ``relations``: of the calls; ``links``: spans with one."""

    sums: dict[str, float]
    relations: Counter[str]
    links: int


def traffic() -> list[Span]:
    """Agents with a system prompt for each service; each turn is a trace of its own."""
    spans = []
    for turn in range(TURNS):
        for service in range(SERVICES):
            for c in range(CONVERSATIONS):
                span = chat(service * CONVERSATIONS + c, turn, words=60, service=f"service-{service}")
                clock = f"It is turn {turn}. " if service == 0 else ""  # a prefix that never stays
                text = f"{clock}You are the agent of shop {service}. " + "Be kind. " * 400
                system = [{"type": "text", "content": text}]
                used = 1400 + 150 * turn
                attributes = {
                    **span.attributes,
                    "gen_ai.system_instructions": json.dumps(system),
                    "gen_ai.usage.input_tokens": used,
                    "gen_ai.usage.cache_read.input_tokens": (used - 150) // 128 * 128
                    if turn and not clock
                    else 0,
                }
                spans.append(replace(span, attributes=attributes))
    return spans


def by_service(span: Span) -> str:
    return str(span.resource["service.name"])


def by_conversation(span: Span) -> str:
    return str(span.attributes["gen_ai.conversation.id"])


def by_trace(span: Span) -> str:
    return span.trace_id


def round_robin() -> Route:
    """Each span to any gateway: as batches of spans go, where nothing holds them together."""
    r = random.Random(1)
    return lambda span: str(r.randrange(1 << 20))


def run(gateways: int, route: Route, spans: Sequence[Span]) -> Outcome:
    """``spans`` in requests of a turn each, every one to the gateway of its key."""
    with ExitStack() as stack:
        down = stack.enter_context(HttpDownstream())
        rigs = [stack.enter_context(GatewayRig(down.url)) for _ in range(gateways)]
        size = SERVICES * CONVERSATIONS
        for begin in range(0, len(spans), size):
            shares: dict[int, list[Span]] = {}
            for span in spans[begin : begin + size]:
                key = route(span)
                to = int(key) if key.isdigit() else xxhash.xxh3_64_intdigest(key.encode())
                shares.setdefault(to % gateways, []).append(span)
            for to, share in shares.items():
                assert rigs[to].post("/v1/traces", request(*share)).status_code == 200
        metrics = [rig.settled() for rig in rigs]
        sums = {name: round(sum(_sum(name, m.get(name, {})) for m in metrics), 6) for name in _SUMS}
        relations = Counter(ours(s)["otelctx.conversation.relation"] for s in down.spans())
        return Outcome(sums, relations, sum(bool(s.links) for s in down.spans()))


def _sum(name: str, series: dict[tuple[str, ...], float]) -> float:
    """Of the cache's tokens those that were read: with the others they are all there are, however it goes."""
    return sum(
        n for labels, n in series.items() if "_cache_" not in name or "tokens" not in name or "read" in labels
    )


def main() -> None:
    spans = traffic()
    one = run(1, by_service, spans)
    rows = [("1 gateway", one)]
    for n in (2, 4):
        for name, route in (
            ("by service", by_service),
            ("by conversation", by_conversation),
            ("by trace id, a trace a turn", by_trace),
            ("round robin", round_robin()),
        ):
            rows.append((f"{n} gateways, {name}", run(n, route, spans)))
    print("| | " + " | ".join(["relations", "links", *(n.removeprefix("otelctx_") for n in _SUMS)]) + " |")
    for name, outcome in rows:
        said = " ".join(f"{k} {n}" for k, n in sorted(outcome.relations.items()))
        cells = [said, str(outcome.links), *(f"{outcome.sums[n]:g}" for n in _SUMS)]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
