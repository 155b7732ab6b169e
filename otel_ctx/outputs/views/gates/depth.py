"""Gates of the window: its depth, and what a turn adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from otel_ctx.context import AT_LEAST
from otel_ctx.model import Reading
from otel_ctx.outputs.views.gates.scene import NOTHING_FOLLOWS, Found, Scene, ids, of_all, or_unplaced, others

_LEAST_TRUE = Fraction(str(AT_LEAST))  # how far a count may be off, either way

_NO_SIZE = "no input is reported, or in numbers that cannot be right, and the text was not seen whole"


def _size(r: Reading) -> tuple[Fraction, Fraction] | None:
    """Between what the depth lies: one number where the provider reports it."""
    usage, call = r.context.usage, r.call
    if usage is None or call.usage.conflicts or (usage == 0 and len(call.prompt)):
        return None  # 0 beside a prompt is no report
    if r.context.usage_method == "exact":
        return Fraction(usage), Fraction(usage)
    return usage * _LEAST_TRUE, usage / _LEAST_TRUE


def _against(
    scene: Scene,
    bound: Fraction,
    sizes: Sequence[tuple[Reading, tuple[Fraction, Fraction] | None]],
    words: Callable[[Reading], str],
    value: Callable[[Reading], float],
    why_unknown: str,
) -> Found:
    """``sizes``: of each call, between what its number lies."""
    known = [(r, size) for r, size in sizes if size is not None]
    over = sorted((r for r, (least, _) in known if least > bound), key=lambda r: -value(r))
    if over:
        told = f"{words(over[0])}{others(len(over) - 1)}"
        return Found(failed=told, value=value(over[0]), calls=ids(over))
    unseen = [r for r, size in sizes if size is None]
    near = [r for r, (_, most) in known if most > bound]
    largest = max((r for r, _ in known), key=value, default=None)
    best = value(largest) if largest is not None else None
    if unseen:
        told = f"{of_all(len(unseen), scene)}: {why_unknown}"
        return Found(unknown=told, value=best, calls=ids(unseen))
    if near:
        told = f"{words(max(near, key=value))}: an estimate, too near to the bound"
        return Found(unknown=told, value=best, calls=ids(near))
    if largest is None:
        return Found(unknown=NOTHING_FOLLOWS, calls=ids(scene.readings))
    return Found(passed=f"at most {words(largest)}", value=best)


def max_context(scene: Scene, bound: int) -> Found:
    return _against(
        scene,
        Fraction(bound),
        [(r, _size(r)) for r in scene.readings],
        lambda r: f"{_tokens(r)} at {scene.at(r)}",
        lambda r: float(r.context.usage or 0),
        _NO_SIZE,
    )


def _tokens(r: Reading) -> str:
    return f"{'' if r.context.usage_method == 'exact' else 'about '}{r.context.usage or 0:,} tokens"


def max_percent(scene: Scene, bound: float) -> Found:
    exceeded = [r for r in scene.readings if "window_exceeded" in r.findings]
    if exceeded and bound <= 100:
        told = f"the window was exceeded at {scene.at(exceeded[0])}{others(len(exceeded) - 1)}"
        return Found(failed=told, calls=ids(exceeded))
    blind = [r for r in scene.readings if r.context.usage is not None and not r.context.limit]
    models = ", ".join(dict.fromkeys(r.call.model or "a model without a name" for r in blind))

    def share(r: Reading) -> float:
        return 100 * (r.context.usage or 0) / (r.context.limit or 1)

    def between(r: Reading) -> tuple[Fraction, Fraction] | None:
        size, limit = _size(r), r.context.limit
        return (100 * size[0] / limit, 100 * size[1] / limit) if size and limit else None

    return _against(
        scene,
        Fraction(bound),
        [(r, between(r)) for r in scene.readings],
        lambda r: f"{share(r):.1f}% ({_tokens(r)} of {r.context.limit:,}) at {scene.at(r)}",
        share,
        f"the window of {models} is not known; --limit MODEL=TOKENS tells it" if blind else _NO_SIZE,
    )


def max_growth(scene: Scene, bound: int) -> Found:
    return _growth(scene, Fraction(bound), lambda before: Fraction(1), _more_tokens)


def max_growth_percent(scene: Scene, bound: float) -> Found:
    return _growth(scene, Fraction(bound), lambda before: Fraction(100, before), _more_percent)


def _growth(
    scene: Scene,
    bound: Fraction,
    unit: Callable[[int], Fraction],
    words: Callable[[Reading, Reading], str],
) -> Found:
    before = {r.call.id: b for b, r in scene.pairs()}

    def between(r: Reading) -> tuple[Fraction, Fraction] | None:
        b = before[r.call.id]
        old, new = _size(b), _size(r)
        if old is None or new is None or r.gap or not b.context.usage:
            return None
        each = unit(b.context.usage)
        return (new[0] - old[1]) * each, (new[1] - old[0]) * each

    def value(r: Reading) -> float:
        b = before[r.call.id].context.usage
        return float(((r.context.usage or 0) - b) * unit(b)) if b else 0.0

    following = [r for r in scene.readings if r.call.id in before]
    found = _against(
        scene,
        bound,
        [(r, between(r)) for r in following],
        lambda r: f"{words(before[r.call.id], r)} at {scene.at(r)}",
        value,
        "what they grew by was not reported, or lies in a gap",
    )
    return found if found.failed or found.unknown else or_unplaced(found, scene)


def _more_tokens(before: Reading, r: Reading) -> str:
    return f"{(r.context.usage or 0) - (before.context.usage or 0):+,} tokens"


def _more_percent(before: Reading, r: Reading) -> str:
    usage = before.context.usage or 1
    return f"{100 * ((r.context.usage or 0) - usage) / usage:+.1f}% ({_more_tokens(before, r)})"
