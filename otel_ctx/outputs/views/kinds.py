"""What a prompt is made of, and that the sums of it hold."""

from __future__ import annotations

from collections.abc import Sequence

from otel_ctx.errors import OtelCtxError
from otel_ctx.model import KINDS, Chain, Reading


class Reconciliation(OtelCtxError):
    """The sums of a report do not add up: it is not printed. A fault of ours, never of the input."""


def by_kind(r: Reading) -> dict[str, int]:
    """Counted tokens by kind of segment; what no segment accounts for is ``other`` (never below 0)."""
    sums = dict(zip(KINDS, r.call.prompt.messages.tokens_by_kind, strict=True))
    for s in (*r.call.prompt.tools, *r.call.prompt.system):
        sums[s.kind] += s.tokens or 0
    out: dict[str, int] = {k: v for k, v in sums.items() if v}
    scaled = {k: round(v * r.tokens.factor) for k, v in out.items()}
    if r.call.usage.input is not None:
        other = r.call.usage.input - sum(scaled.values())
        if other > 0:
            scaled["other"] = other
    return scaled


def reconcile(readings: Sequence[Reading]) -> None:
    """Sums by kind = sums by segment = what the call says it counted; counted + unaccounted = reported input."""
    for r in readings:
        prompt, chain = r.call.prompt, r.call.prompt.messages
        if r.tokens.method == "unmeasured":
            continue
        by_segment = prompt.tools.counted + prompt.system.counted + _new_tokens(chain)
        if by_segment != r.tokens.counted:
            raise Reconciliation(
                f"{r.call.id}: segments hold {by_segment:,} tokens, the call {r.tokens.counted:,}"
            )
        reported = r.call.usage.input
        if (
            reported is not None
            and r.tokens.unaccounted is not None
            and r.tokens.counted + r.tokens.unaccounted != reported
        ):
            raise Reconciliation(
                f"{r.call.id}: {r.tokens.counted:,} + {r.tokens.unaccounted:,} is not {reported:,}"
            )


def _new_tokens(chain: Chain) -> int:
    """Tokens of a chain, counted anew for what is new in it and taken from the sums of what it extends."""
    base = chain.base
    below = sum(base.tokens_by_kind) if base is not None else 0
    return below + sum([s.tokens or 0 for s in chain.new])
