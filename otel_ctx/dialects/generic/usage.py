"""The token numbers of a call, out of all that are told under names that were guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from otel_ctx.dialects.generic.names import Count
from otel_ctx.dialects.generic.seen import Number, Seen
from otel_ctx.model import UsageClaim
from otel_ctx.parts import completed, read_usage

_MAIN: tuple[Count, ...] = ("input", "output", "total")


def usage_of(seen: Seen) -> tuple[UsageClaim | None, str]:
    """The numbers, and the name of an attribute that has them. What ``input`` includes is left open, unless a provider's own
    usage says it or both numbers stand side by side."""
    numbers = {count: _agreed(found) for count, found in seen.counts.items()}
    flat = _claim(numbers, seen)
    own, where = _own(seen)
    if own is None:
        return flat, next((numbers[count].name for count in _MAIN if count in numbers), "")
    if flat is None or all(n.nested for found in seen.counts.values() for n in found):
        return own._replace(guessed=True), where
    return completed(flat, own, f"the provider's usage in {where}"), where


def _claim(numbers: Mapping[Count, Number], seen: Seen) -> UsageClaim | None:
    """What names tell; None where they tell of neither input nor output."""
    if not any(count in numbers for count in _MAIN):
        return None
    told: dict[str, Any] = {count: n.value for count, n in numbers.items()}
    claim = UsageClaim(**told, guessed=True)
    cached = (claim.cache_read or 0) + (claim.cache_write or 0)
    inputs = {n.value for n in seen.counts.get("input", ())}
    both = next((n for n in sorted(inputs) if cached and n - cached in inputs), None)
    if both is None:
        return claim
    evidence = "the input stands with and without the cached tokens"
    return claim._replace(input=both, semantics="inclusive", semantics_evidence=evidence)


def _agreed(found: Sequence[Number]) -> Number:
    """What most attributes of one meaning say, else that with the shortest name; of what lies in JSON only where there is
    nothing else."""
    nested = min(n.nested for n in found)
    told = [n for n in found if n.nested == nested]
    times = Counter(n.value for n in told)
    return min(told, key=lambda n: (-times[n.value], len(n.path), n))


def _own(seen: Seen) -> tuple[UsageClaim | None, str]:
    """A provider's own usage, and where it stands: that of a response, else one that has details as only providers nest
    them. Many write a provider's names and mean something else."""
    told = [(of, answer.usage) for of, answer in seen.responses]
    told += [(of, usage) for of, usage in seen.usages if _is_nested(usage)]
    claims = [(of.path, of.name, claim) for of, usage in told if (claim := read_usage(usage)) is not None]
    settled = [c for c in claims if c[2].semantics] or claims
    _, name, claim = min(settled, key=lambda c: (len(c[0]), c[:2]), default=((), "", None))
    return claim, name


def _is_nested(usage: Mapping[str, Any]) -> bool:
    return any(isinstance(v, Mapping) for v in usage.values())
