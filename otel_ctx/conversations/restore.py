"""A beginning that a dump lost, taken from the call before."""

from __future__ import annotations

from dataclasses import replace

from otel_ctx.model import EMPTY_CHAIN, Call, Section, grown

_OVERLAP_SEGMENTS = 3  # fewer could be chance


def restored(call: Call, previous: Call) -> Call:
    """``call`` with what its span lost at the beginning, taken from the call before and marked ``inferred``.

    Where a span's limit dropped the oldest attributes, what is left begins in the middle of the history that the call before
    still has. It is taken only where all that both hold agrees: the end of the one is the beginning of the other."""
    if "attributes_dropped" not in call.completeness.reasons:
        return call
    old, new = list(previous.prompt.messages), list(call.prompt.messages)
    theirs, ours = [s.digest for s in old], [s.digest for s in new]
    for overlap in range(min(len(old), len(new)), _OVERLAP_SEGMENTS - 1, -1):
        if theirs[-overlap:] == ours[:overlap]:
            break
    else:
        return call
    head = [replace(s, inferred=True) for s in old[:-overlap]]
    # the half of a message that was left begins at a part of its own: its place is that of the other call
    both = [replace(s, path=o.path) for s, o in zip(new, old[-overlap:], strict=False)]
    chain = grown(EMPTY_CHAIN, head + both + new[overlap:], call.prompt.messages.messages)
    system = call.prompt.system
    if not system and "system" in call.completeness.lost:
        system = Section([replace(s, inferred=True) for s in previous.prompt.system])
    return replace(call, prompt=replace(call.prompt, system=system, messages=chain))
