"""What a record's token numbers mean: input that includes the cached tokens, whatever the dialect wrote.

Whether a dialect's input includes them is decided, in this order, by arithmetic that admits one answer only, by the
dialect's own word, by the rule for its scope, by a total that adds up one way, and else by OpenTelemetry's convention.
The answer says which it was. Numbers whose names were guessed follow no convention: what nothing settles is not known,
until the text that was seen does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from otel_ctx.frozen import frozen
from otel_ctx.model import Usage, UsageClaim
from otel_ctx.rules import UsageRule

Semantics = Literal["inclusive", "exclusive"]

ASSUMED = "assumed (OpenTelemetry convention)"
_AS_THE_API = "the provider's API counts so, and its number was passed on"
# Text counts by an estimate, and tools or instructions that were not seen, in shares of the input.
_STRAY = 1.3
_FAR = 1.5  # how far an estimate of the text may be from the truth
_ROOM = 400  # tokens of framing besides
_MOST = 10**10  # tokens; no request has as many, and no sum over a run
_OF_THE_CACHE = frozenset({"cache_read", "cache_write", "cache_write_1h", "cache_write_5m"})
# The eight that a claim begins with, in its order.
_COUNTS = (
    "input", "output", "cache_read", "cache_write", "cache_write_1h", "cache_write_5m", "reasoning", "total",
)  # fmt: skip


@frozen(frozen=True, slots=True)
class _Cache:
    read: int | None
    write: int | None
    write_1h: int | None

    @property
    def known(self) -> int:
        return (self.read or 0) + (self.write or 0)

    @property
    def absent(self) -> set[str]:
        """The counts that nobody told."""
        counts = {"cache_read": self.read, "cache_write": self.write}
        return {name for name, count in counts.items() if count is None}

    @property
    def missing(self) -> str:
        """The same in words; empty if none."""
        return " and ".join(_words(name) for name in sorted(self.absent))


def decide(claim: UsageClaim, rule: UsageRule | None, api_includes_cache: bool | None = None) -> Usage:
    """The numbers of one record, input inclusive. Unknown stays None; contradictions are told, not mended: what they leave
    open is not known.

    ``api_includes_cache``: what the provider's own API does, which counts where the claim was guessed, and where
    arithmetic is against a rule: no library makes inclusive numbers exclusive."""
    conflicts: list[str] = []
    if claim.unreadable and (claim.input is None or (claim.damaged and claim.cache_read is None)):
        conflicts.append(claim.unreadable)
    claim = _believed(claim, conflicts)
    cache = _with_writes(claim, conflicts)
    # Of an input that includes the cached tokens this cannot be: it proves that the input does not, or is wrong.
    more_cached = claim.input is not None and cache.known > claim.input
    semantics, evidence = _semantics(claim, cache, rule, api_includes_cache, more_cached=more_cached)
    impossible = more_cached and bool(api_includes_cache) and _said(claim, rule) == "inclusive"
    if impossible:
        conflicts.append(f"{evidence}, which includes the cached tokens")
    cache = _with_zeros(claim, cache, rule)

    total_input = uncached = claim.input
    if semantics == "exclusive":
        if uncached is None and cache.known and _zeros_omitted(claim, rule):
            uncached = 0
        total_input = uncached + cache.known if uncached is not None else None
    elif semantics is None and cache.known:
        total_input = None
    output, reasoning = _output(claim, rule, total_input)

    if semantics == "exclusive" and uncached is not None and total_input is not None and cache.missing:
        proved = _proved_by_total(claim, uncached, total_input, output)
        if proved is not None:
            cache = _with_rest(cache, proved - total_input)
            total_input = proved
        else:
            evidence = f"{evidence}; {cache.missing} not recorded: the input may be too low"
            never = set(rule.not_recorded) if rule is not None else set()
            if {"cache_read", "cache_write"} <= never or (claim.damaged and cache.absent - never):
                total_input = None  # never told, or lost: the uncached rest can be a hundredth of the input

    if total_input == 0 and output:
        total_input = None  # something was answered, so something was asked: 0 is no count of it

    if impossible:  # either is wrong: only a sum tells that it is not the input
        proved_input = claim.output is not None and claim.total == (claim.input or 0) + claim.output
        total_input, cache = claim.input if proved_input else None, _Cache(None, None, None)
        uncached, semantics = total_input, "inclusive"
    _add_conflicts(conflicts, claim, uncached, total_input, output, reasoning)
    # what is more than all is not known
    if claim.total and any(words.startswith("total ") for words in conflicts):
        if (total_input or 0) > claim.total:
            total_input, cache = None, _Cache(None, None, None)
        output = output if (output or 0) <= claim.total else None
    if reasoning is not None and output is not None and reasoning > output:
        reasoning = None
    told = bool(uncached) or total_input is not None or cache.read is not None or cache.write is not None
    return Usage(
        input=total_input,
        cache_read=cache.read,
        cache_write=cache.write,
        cache_write_1h=cache.write_1h,
        output=output,
        reasoning=reasoning,
        semantics=semantics if told else None,
        semantics_evidence=evidence if told else "",
        cache_implied=told and claim.cache_read is None and claim.cache_write is None and cache.read == 0,
        conflicts=tuple(conflicts),
    )


def settled(usage: Usage, claim: UsageClaim | None, text: int, *, whole: bool) -> Usage:
    """``usage`` with an input whose meaning only the text can tell: ``text`` tokens were seen, of the ``whole`` prompt or
    of a part. More text than input: cached tokens are not in it. All the text is there and far less than both together:
    they are. Where none are told, and the input is one without them, they were lost: what it was is not known."""
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    if usage.semantics == "exclusive" and usage.input and not cached and usage.input < text / _FAR - _ROOM:
        words = f"input {_n(usage.input)} is without cached tokens and none are told, but the text has about {_n(text)}"
        return replace(
            usage, input=None, cache_read=None, cache_write=None, conflicts=(*usage.conflicts, words)
        )
    if claim is None or not claim.guessed or usage.semantics or not cached:
        return usage
    claim = _believed(claim, [])
    if claim.input is None:
        return usage
    least, most = text / _STRAY - _ROOM, text * _STRAY + _ROOM
    if claim.input < least:
        evidence = f"the text alone has about {_n(text)} tokens"
        return replace(usage, input=claim.input + cached, semantics="exclusive", semantics_evidence=evidence)
    if whole and claim.input <= most < claim.input + cached:
        evidence = f"the whole text has about {_n(text)} tokens"
        return replace(usage, input=claim.input, semantics="inclusive", semantics_evidence=evidence)
    return usage


def agree(a: Usage, b: Usage) -> bool:
    """Whether two tellings could be of one call: equal in every number that both know, and they know one in common.

    Inputs that differ by exactly the cached tokens agree: one of them took exclusive numbers for inclusive ones.
    """
    if (a.input is None or b.input is None) and (a.output is None or b.output is None):
        return False
    others = ("cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    for count in others:
        mine, theirs = getattr(a, count), getattr(b, count)
        if mine is not None and theirs is not None and mine != theirs:
            return False
    if a.input is None or b.input is None or a.input == b.input:
        return True
    reads = {u.cache_read for u in (a, b)} - {None, 0}
    writes = {u.cache_write for u in (a, b)} - {None, 0}
    cached = {(read or 0) + (write or 0) for read in reads | {0} for write in writes | {0}} - {0}
    return abs(a.input - b.input) in cached


def _believed(claim: UsageClaim, conflicts: list[str]) -> UsageClaim:
    """``claim`` without the numbers that no model can have: they count as not reported, and are told."""
    told = [*filter(None, claim[:8])]
    if not told or (min(told) > 0 and max(told) <= _MOST):
        return claim
    absurd = {c: n for c, n in zip(_COUNTS, claim[:8], strict=True) if n and not 0 < n <= _MOST}
    for count, n in absurd.items():
        why = "is negative" if n < 0 else "is more than any model can have"
        conflicts.append(f"{_words(count)} {_n(n)} {why}")
    unknown: dict[str, Any] = dict.fromkeys(absurd)
    return claim._replace(**unknown, damaged=claim.damaged or not _OF_THE_CACHE.isdisjoint(absurd))


def _with_writes(claim: UsageClaim, conflicts: list[str]) -> _Cache:
    """Written tokens, from the split by TTL where the sum is missing (or 0 beside it, as LangChain leaves it)."""
    write, one_hour, five_minutes = claim.cache_write, claim.cache_write_1h, claim.cache_write_5m
    if one_hour is None and five_minutes is None:
        return _Cache(claim.cache_read, write, None)
    split = (one_hour or 0) + (five_minutes or 0)
    if write is not None and (split > write or (split != write and None not in (one_hour, five_minutes))):
        conflicts.append(
            f"cache write {_n(write)} but 5 min {_n(five_minutes or 0)} + 1 h {_n(one_hour or 0)}"
        )
    if not write:
        write = split
    if one_hour is None and write is not None and five_minutes is not None and five_minutes <= write:
        one_hour = write - five_minutes
    return _Cache(claim.cache_read, write, one_hour)


def _semantics(
    claim: UsageClaim,
    cache: _Cache,
    rule: UsageRule | None,
    api_includes_cache: bool | None,
    *,
    more_cached: bool,
) -> tuple[Semantics | None, str]:
    if more_cached:
        told = " + ".join(
            f"cache {name} {_n(count)}"
            for name, count in (("read", cache.read), ("write", cache.write))
            if count
        )
        return "exclusive", f"{told} > input {_n(claim.input or 0)}"
    if claim.semantics:
        return claim.semantics, claim.semantics_evidence or "said by the dialect"
    if rule is not None and rule.input_includes_cache is not None:
        return ("inclusive" if rule.input_includes_cache else "exclusive"), rule.evidence
    # Only here: some libraries write total = input + output although their input excludes the cached tokens.
    if claim.input is not None and claim.output is not None and claim.total is not None and cache.known:
        sums = {claim.output, claim.output + (claim.reasoning or 0)}
        if claim.total - claim.input - cache.known in sums:
            return "exclusive", f"total {_n(claim.total)} = input + cached + output"
        if claim.total - claim.input in sums and not claim.guessed:
            return "inclusive", f"total {_n(claim.total)} = input + output"
    if not claim.guessed:
        return "inclusive", ASSUMED
    if api_includes_cache:
        return "inclusive", _AS_THE_API
    if claim.input is None or not cache.known:
        return None, ""
    return None, f"not known: input {_n(claim.input)} with or without the cached {_n(cache.known)}"


def _said(claim: UsageClaim, rule: UsageRule | None) -> Semantics | None:
    """What the dialect or its rule says, where one does."""
    if claim.semantics or rule is None or rule.input_includes_cache is None:
        return claim.semantics or None
    return "inclusive" if rule.input_includes_cache else "exclusive"


def _zeros_omitted(claim: UsageClaim, rule: UsageRule | None) -> bool:
    """Of a record that is whole, as far as is known: what may be lost is not 0."""
    return not claim.damaged and (claim.zeros_omitted or (rule is not None and rule.zeros_omitted))


def _with_zeros(claim: UsageClaim, cache: _Cache, rule: UsageRule | None) -> _Cache:
    """An absent count is 0 where the dialect leaves zeros out, could have told it, and told of the input at all."""
    if not _zeros_omitted(claim, rule):
        return cache
    none_told = cache.read is None and cache.write is None
    if none_told and claim.input is None:
        return cache
    if none_told and not claim.zeros_omitted and rule is not None and rule.may_lose_cache:
        return cache
    never = rule.not_recorded if rule is not None else ()
    read = 0 if cache.read is None and "cache_read" not in never else cache.read
    write = 0 if cache.write is None and "cache_write" not in never else cache.write
    return _Cache(read, write, cache.write_1h)


def _output(
    claim: UsageClaim, rule: UsageRule | None, total_input: int | None
) -> tuple[int | None, int | None]:
    """Output with reasoning in it, and reasoning."""
    output, reasoning = claim.output, claim.reasoning
    if output is None:
        return None, reasoning
    rest = None
    if claim.total is not None and total_input is not None:
        rest = claim.total - total_input - output
    if claim.output_excludes_reasoning or (rule is not None and rule.output_excludes_reasoning):
        if reasoning is None and rest is not None and rest > 0:
            reasoning = rest
        return output + (reasoning or 0), reasoning
    if reasoning and rest == reasoning:  # the total counts it once more, so the output does not
        return output + reasoning, reasoning
    return output, reasoning


def _proved_by_total(claim: UsageClaim, uncached: int, known: int, output: int | None) -> int | None:
    """The whole input by a total that counts cached tokens; one that is input + output proves nothing."""
    if claim.total is None or output is None:
        return None
    rest = claim.total - output
    return rest if rest > uncached and rest >= known else None


def _with_rest(cache: _Cache, rest: int) -> _Cache:
    """The rest is the one count that is missing; of two it is not known which."""
    if cache.read is None and cache.write is None:
        return cache
    if cache.read is None:
        return replace(cache, read=rest)
    return replace(cache, write=rest)


def _add_conflicts(
    conflicts: list[str],
    claim: UsageClaim,
    uncached: int | None,
    total_input: int | None,
    output: int | None,
    reasoning: int | None,
) -> None:
    if claim.total is not None and total_input is not None and output is not None:
        inputs = {total_input, total_input if uncached is None else uncached}
        outputs = {output, output if claim.output is None else claim.output}
        if all(claim.total != i + o for i in inputs for o in outputs):
            conflicts.append(f"total {_n(claim.total)} but input {_n(total_input)} + output {_n(output)}")
    if reasoning is not None and output is not None and reasoning > output:
        conflicts.append(f"reasoning {_n(reasoning)} but output {_n(output)}")


def _words(count: str) -> str:
    return {"cache_write_1h": "1 h cache write", "cache_write_5m": "5 min cache write"}.get(
        count, count.replace("_", " ")
    )


def _n(count: int) -> str:
    return f"{count:,}"
