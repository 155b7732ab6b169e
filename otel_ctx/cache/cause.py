"""Why a call did not read what it could have read. The facts come in as numbers; no text is looked at here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.cache.store import Entry
from otel_ctx.model import Break, Evidence


class Verdict(NamedTuple):
    """``barrier``: nothing that the prompt says could have helped; ``otherwise``: what is to blame where the text did not
    change."""

    barrier: str = ""
    otherwise: str = ""
    sure: Evidence = "unknown"
    note: str = ""


NO_VERDICT = Verdict()


@dataclass(frozen=True, slots=True)
class Facts:
    """``expected``: the place up to which the prompt before reached; ``entry`` holds it (None: it is gone or never was).
    ``marker``: the place of the last marker, None where there is none or nothing tells; ``last_marker``: that of the call
    before. Places are tokens."""

    now: int
    mechanism: Mechanism
    seen: bool  # the text of both calls
    reported: bool
    proven: bool  # the cache is known to be told of: a count stands there, or an earlier call had one
    dropped: int  # tokens of thinking that the provider takes out by its rule
    shrunk: bool  # the prompt is smaller than its text says, or than the one before
    expected: int
    slack: int
    same_model: bool
    entry: Entry | None
    supposed: bool  # that it is marked is not known
    outlived: bool  # an entry that is no younger was read
    asked: bool | None  # was anything marked? None: nothing tells
    shown: bool  # the markers themselves are on the span
    shortest: bool  # what was marked is below the minimum
    longer_before: bool  # the lifetime asked for before was a longer one
    marker: int | None
    last_marker: int | None
    stayed: bool  # both stand behind the same segment
    beyond_head: bool  # the last marker stands behind tools and system prompt, as far as can be told
    distance: int  # positions from the last marker back to the one of the call before
    parameters: str  # that changed, in words
    explained: bool  # by a change in the text: with the entry alive, no more than this was left to read
    known: bool  # the times of both calls, and what the one before used and where it was marked
    unmarked_before: bool  # nothing was marked in the call before
    refused_before: bool  # something was, and the provider wrote nothing
    in_front: bool  # the markers stand in front of the entry of the call before, and by the rule no more was to be read


NEAR = 1.25  # of the minimum: a count may be so much wrong
OF_THE_TAIL = ("frozen_breakpoint", "missing_tail_breakpoint")


def verdict(f: Facts) -> Verdict:
    for judge in (_model, _lifetime, _not_yet, _unmarked, _unseen, _settings, _marker, _thinking, _server):
        found = judge(f)
        if found is not None:
            return found
    return NO_VERDICT


def _by(f: Facts, strongest: Evidence) -> Evidence:
    """Usage shows a loss; without text its reason is inferred."""
    return strongest if f.seen else "inferred"


def _model(f: Facts) -> Verdict | None:
    if f.same_model:
        return None
    return Verdict("model_switch", sure=_by(f, "reported" if f.reported else "predicted"))


def _lifetime(f: Facts) -> Verdict | None:
    entry = f.entry
    if entry is None or entry.lives(f.now):
        return None
    if not entry.is_dead(f.now) and (not f.reported or f.mechanism.style == "effort" or _certain(f)):
        return None  # it may live
    known: Evidence = "predicted" if entry.is_dead(f.now) else "inferred"
    kind = "ttl_lost" if f.longer_before else "ttl_expired"
    return Verdict(kind, sure="reported" if f.reported and f.seen and known == "predicted" else _by(f, known))


def _certain(f: Facts) -> bool:
    """Is there a reason that is known, where that the entry has expired is not?"""
    return f.explained or (f.outlived and bool(f.dropped or f.parameters))


def _not_yet(f: Facts) -> Verdict | None:
    if f.entry is None or f.entry.is_ready(f.now):
        return None
    if f.supposed:
        return Verdict("parallel_miss", sure="inferred")
    return Verdict("parallel_miss", sure=_by(f, "reported" if f.reported else "predicted"))


def _unmarked(f: Facts) -> Verdict | None:
    """Nothing was asked of a cache that acts on markers only."""
    if f.mechanism.style != "marked" or f.asked is not False:
        return None
    if f.shortest:
        if f.marker is not None and f.marker >= f.mechanism.minimum:
            return Verdict("below_minimum", sure="inferred")  # by our count it is not
        return Verdict("below_minimum", sure="reported" if f.reported else "predicted")
    if f.shown:
        return Verdict(otherwise="unknown")  # far above the minimum, and the provider wrote nothing
    return Verdict("no_cache_control", sure="inferred")


def _unseen(f: Facts) -> Verdict | None:
    if f.seen:
        return None
    if f.mechanism.style == "marked" and f.marker is not None and f.marker == f.last_marker:
        # a smaller prompt is not what was sent before and more: what of it was sent before, nothing tells
        return Verdict() if f.shrunk else _marker(f)
    told = f.reported and f.proven and f.mechanism.style != "effort"
    return Verdict(otherwise="unknown") if told else Verdict()


def _settings(f: Facts) -> Verdict | None:
    if not f.parameters:
        return None
    return Verdict(otherwise="parameters_changed", sure=_by(f, "reported"), note=f.parameters)


def _thinking(f: Facts) -> Verdict | None:
    """The blocks that a user's new message takes out are documented, and so is the loss from the first of them on."""
    if not f.dropped:
        return None
    return Verdict(otherwise="server_side_rewrite_suspected", sure="reported" if f.reported else "predicted")


def _marker(f: Facts) -> Verdict | None:
    """Where the markers stand. None where they cover what could have been read."""
    if f.mechanism.style != "marked" or f.marker is None:
        return None
    if f.unmarked_before:
        return unmarked_tail(f)
    if f.refused_before:
        return _refused(f)
    if f.marker + f.slack < f.expected or f.in_front:
        return unmarked_tail(f)
    if f.last_marker is None:
        return None
    if f.last_marker + f.slack < f.expected:
        return Verdict(otherwise="missing_tail_breakpoint", sure=_of_markers(f))
    if f.distance >= f.mechanism.lookback:
        return Verdict(otherwise="lookback_exceeded", sure=_of_markers(f))
    return None


def _refused(f: Facts) -> Verdict:
    """Of what the call before marked nothing was written: near the minimum it was too short by the provider's count."""
    near = f.last_marker is not None and f.last_marker < NEAR * f.mechanism.minimum
    return Verdict(otherwise="below_minimum", sure="inferred") if near else Verdict(otherwise="unknown")


def _of_markers(f: Facts) -> Evidence:
    """Markers that are on the spans are known, others inferred from usage."""
    return "reported" if f.shown and f.reported else "predicted" if f.shown else "inferred"


def unmarked_tail(f: Facts) -> Verdict:
    """The last marker stands in front of what was sent again: the same one each time, or none."""
    if f.unmarked_before:
        return Verdict(otherwise="no_cache_control", sure=_of_markers(f))
    near = f.marker is not None and f.last_marker is not None and abs(f.marker - f.last_marker) <= f.slack
    still = f.stayed or near
    kind = "frozen_breakpoint" if still and f.beyond_head else "missing_tail_breakpoint"
    return Verdict(otherwise=kind, sure=_of_markers(f))


# What a change made smaller looks rewritten, and what was not seen may have changed.
THE_PROVIDERS = ("provider_side_miss", "server_side_rewrite_suspected")


def missed_beside(judged: Verdict, at: Break | None, readable: int, floor: int) -> int:
    """Tokens in front of a change among the messages that the provider did not read although its entry stood there: no change
    is to blame for them. ``readable``: what the rules read with the change; half of it is more than counts can be wrong by.

    Not of tools and system prompt, as how a provider writes them is not told."""
    among = at is not None and at.path.startswith("messages") and at.kind not in ("tools", "system")
    missed = judged.otherwise in THE_PROVIDERS and not judged.barrier
    return readable - floor if among and missed and floor < readable // 2 else 0


def _server(f: Facts) -> Verdict | None:
    if not f.reported or not f.proven or f.mechanism.style == "effort":
        return Verdict()  # nothing was promised, or nobody says that it missed
    if not f.known:
        return Verdict(otherwise="unknown")
    if f.shrunk:
        return Verdict(otherwise="server_side_rewrite_suspected", sure="inferred")
    return Verdict(otherwise="provider_side_miss", sure="reported")
