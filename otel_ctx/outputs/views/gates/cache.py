"""Gates of the prompt cache: what came from it, and what was billed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from otel_ctx.model import Reading
from otel_ctx.outputs.views.gates.scene import Found, Scene, ids, of_all, or_unplaced
from otel_ctx.outputs.views.selection import label


def min_hit_ratio(scene: Scene, bound: float) -> Found:
    billed = [r for r in scene.readings if not _refused(r)]
    dark = [r for r in billed if not r.call.usage.input or r.call.usage.conflicts]
    silent = [r for r in billed if r.call.usage.input and r.call.usage.cache_read is None]
    whole = sum(r.call.usage.input or 0 for r in billed)
    read = sum(r.call.usage.cache_read or 0 for r in billed)
    unsaid = sum(r.call.usage.input or 0 for r in silent)
    least, most = Fraction(bound) * whole <= read, Fraction(bound) * whole <= read + unsaid
    ratio = read / whole if whole and not silent else None
    if dark or not whole or (most and not least):
        quiet = [r for r in billed if r in dark or r in silent] or billed
        told = f"{of_all(len(quiet), scene)} report no input or not what of it came from the cache"
        return Found(unknown=told, value=ratio, calls=ids(quiet))
    said = f"{'at least ' if silent else ''}{100 * read / whole:.1f}% of {whole:,} tokens came from the cache"
    if least:
        return Found(passed=said, value=ratio)
    worst = _worst(scene, billed)
    return Found(failed=said + worst, value=ratio, calls=ids([r for r in billed if r.wasted] or billed))


def _refused(r: Reading) -> bool:
    """Nothing was read, and nothing billed."""
    return r.call.status != "ok" and r.call.usage.input is None


def _worst(scene: Scene, billed: Sequence[Reading]) -> str:
    lost: dict[str, int] = {}
    for r in billed:
        lost[r.conversation] = lost.get(r.conversation, 0) + r.wasted
    worst = max(lost, key=lambda c: lost[c], default="")
    if not worst or not lost[worst]:
        return ""
    return f"; {label(scene.conversations[worst])} lost {lost[worst]:,} of what it could have read"


def max_waste(scene: Scene, bound: int) -> Found:
    return _waste(scene, Fraction(bound), lambda r: float(r.wasted), lambda n: f"{n:,.0f} tokens")


def max_waste_usd(scene: Scene, bound: float) -> Found:
    found = _waste(scene, Fraction(bound), lambda r: _lost_usd(r) or 0.0, _usd)
    if found.failed or found.unknown:
        return found
    dear = [r for r in scene.readings if r.wasted and _lost_usd(r) is None]
    if not dear:
        return _open(scene, Fraction(bound), found)
    models = ", ".join(dict.fromkeys(r.call.model or "a model without a name" for r in dear))
    told = f"{of_all(len(dear), scene)} lost tokens at no known price ({models}); --rules FILE can tell it"
    return Found(unknown=told, value=found.value, calls=ids(dear))


def _open(scene: Scene, bound: Fraction, found: Found) -> Found:
    """``found`` holds by the least that it may be: for how long tokens were written is not always told."""
    lost = [r for r in scene.readings if r.cost is not None and r.cost.wasted and r.cost.wasted_high]
    most = sum((Fraction(r.cost.wasted_high or 0.0) for r in lost if r.cost is not None), Fraction(0))
    least, dearest = _usd(found.value or 0.0), _usd(float(most))
    if least == dearest:
        return found
    if most <= bound:
        return Found(passed=found.passed.replace(least, f"{least} to {dearest}", 1), value=found.value)
    told = f"{least} to {dearest} billed again: usage does not say for how long tokens were written"
    return Found(unknown=told, value=found.value, calls=ids(lost))


def _lost_usd(r: Reading) -> float | None:
    return r.cost.wasted if r.cost is not None else None


def _usd(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.3g}"


def _waste(
    scene: Scene, bound: Fraction, each: Callable[[Reading], float], words: Callable[[float], str]
) -> Found:
    sure = [r for r in scene.readings if not r.call.usage.conflicts]
    lost = sum((Fraction(each(r)) for r in sure), Fraction(0))
    total = float(lost)
    guilty = [r for r in sure if r.wasted]
    if lost > bound:
        most = max(guilty, key=each)
        told = f"{words(total)} billed again, most ({words(each(most))}, {most.cause}) at {scene.at(most)}"
        return Found(failed=told, value=total, calls=ids(guilty))
    doubtful = [r for r in scene.readings if r.call.usage.conflicts]
    if doubtful:
        told = f"{of_all(len(doubtful), scene)}: the numbers that are reported cannot be right"
        return Found(unknown=told, value=total, calls=ids(doubtful))
    unruled = [r for r in scene.readings if r.unruled]
    if unruled:
        models = ", ".join(dict.fromkeys(r.call.model or "a model without a name" for r in unruled))
        told = f"{of_all(len(unruled), scene)} may have lost tokens: no cache rule is known ({models})"
        told += "; --rules FILE can tell it"
        return Found(unknown=told, value=None, calls=ids(unruled))
    dark = [r for r in scene.readings if not _refused(r) and not _accounted(r)]
    if dark:
        told = f"{of_all(len(dark), scene)}: neither usage nor text says what the cache did"
        return Found(unknown=told, value=total, calls=ids(dark))
    silent = [r for r in scene.readings if _untold(r)]
    if silent:
        told = f"{of_all(len(silent), scene)} do not report what was read from the cache"
        return Found(unknown=told, value=total if total else None, calls=ids(silent))
    return or_unplaced(Found(passed=f"{words(total)} billed again", value=total), scene)


def _untold(r: Reading) -> bool:
    """It was served and could have read something, and what it read is not reported: by the rules it may be a hit, which
    proves none. Of a call without any usage, as canned answers have, the text is all that there is."""
    access = r.access
    served = r.call.usage.input is not None and r.call.status == "ok"
    return served and access is not None and access.simulated and access.expected > 0


def _accounted(r: Reading) -> bool:
    return r.judged or (r.access is None and r.call.usage.cache_read is not None)
