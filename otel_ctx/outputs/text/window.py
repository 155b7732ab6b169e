"""What fills the window: by kind, and the largest segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ctx.model import Reading, Segment, Tokens
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    DOT,
    Line,
    Run,
    clip,
    clip_middle,
    clip_path,
    facts,
    fine_bar,
    heading,
    line,
    more,
    number,
    paragraph,
    percent,
)
from otel_ctx.outputs.text.view import View
from otel_ctx.outputs.views.kinds import by_kind
from otel_ctx.outputs.views.names import name_of

_LARGEST = 5
_INDENT = 2
_KIND = 11  # the longest kind, tool_result
_COUNT = 7


def window(view: View) -> Iterator[Line]:
    """The last call that was seen of the deepest conversation; with -v that of each."""
    last = [r for c in view.conversations.values() if (r := _last_seen(view, c.calls)) is not None]
    if not last:
        if view.conversations:
            yield from heading("What fills the window", "", view.width)
            yield BLANK
            yield from paragraph(
                "unknown: no call's text was captured, only its token counts", view.width, _INDENT, "dim"
            )
        return
    last.sort(key=lambda r: -(r.context.usage or 0))
    for reading in last if view.verbose else last[:1]:
        name = view.name(view.conversations[reading.conversation])
        note = f"turn {reading.turn}"
        if len(view.conversations) > 1:
            which = "" if view.verbose else "the deepest: "
            note = f"{which}{clip_middle(name, view.width - 48)}, {note}"
        yield from heading("What fills the window", note, view.width)
        yield from by_kind_chart(view, reading)


def _last_seen(view: View, calls: tuple[str, ...]) -> Reading | None:
    for call in reversed(calls):
        reading = view.readings[call]
        if reading.call.completeness.status in ("full", "partial"):
            return reading
    return None


def by_kind_chart(view: View, reading: Reading) -> Iterator[Line]:
    segments = tuple(reading.call.prompt)
    kinds = by_kind(reading)
    whole = max(sum(kinds.values()), reading.context.usage or 0)
    counts: dict[str, int] = {}
    for segment in segments:
        counts[segment.kind] = counts.get(segment.kind, 0) + 1
    yield BLANK
    chart_width = min(view.width - _INDENT - _KIND - _COUNT - 20, 48)
    largest = max(kinds.values(), default=0)
    for kind in sorted(kinds, key=lambda k: (k == "other", -kinds[k])):
        tokens, count, other = kinds[kind], counts.get(kind, 0), kind == "other"
        yield line(
            " " * _INDENT,
            Run(f"{kind:<{_KIND}}", "dim" if other else ""),
            Run(f"{f'×{count:,}' if count > 1 else '':>{_COUNT}}", "dim"),
            f"{number(tokens):>11}  {percent(tokens, whole):>4}  ",
            Run(fine_bar(tokens / largest, chart_width), "dim" if other else "chart"),
        )
    yield from facts(_footnotes(reading, segments, kinds), view.width, _INDENT, "dim")
    yield from _largest(view, segments, reading.tokens, whole)


def _footnotes(reading: Reading, segments: tuple[Segment, ...], kinds: Mapping[str, int]) -> Iterator[str]:
    if reading.tokens.method == "estimated" and reading.call.usage.input is not None:
        yield "estimated: no tokenizer for this model, and no whole prompt to scale it by"
    else:
        yield method(reading.tokens)
    if reading.call.completeness.status == "partial":
        yield "this prompt was seen in part only"
    if "other" in kinds:
        whole = reading.call.completeness.status == "full"
        why = "in no segment" if whole else "not seen, or framing"
        yield f"other: reported by the provider, {why}"
    unmeasured: dict[str, int] = {}
    for segment in segments:
        if segment.tokens is None:
            unmeasured[segment.kind] = unmeasured.get(segment.kind, 0) + 1
    for kind, count in unmeasured.items():
        yield f"{count:,} {kind} not counted"
    if reading.tokens.server_side:
        yield f"{number(reading.tokens.server_side)} held by the provider, not in the request"
    over = _over(reading)
    if over:
        yield f"the count is {over} above the reported {number(reading.call.usage.input)}"


def _over(reading: Reading) -> str:
    """How far the counted tokens lie above those that the provider reports, where that is more than rounding."""
    reported = reading.call.usage.input
    counted = reading.tokens.counted * reading.tokens.factor
    return percent(counted - reported, reported) if reported and counted > 1.01 * reported else ""


def method(tokens: Tokens) -> str:
    """How the tokens of segments were found, in words."""
    match tokens.method:
        case "exact":
            return "counted exactly, with the model's own tokenizer"
        case "calibrated":
            return f"estimated, and scaled ×{tokens.factor:.2f} to the usage that the provider reports"
        case "estimated":
            return "estimated: no tokenizer for this model, and no reported usage to scale it by"
        case "unmeasured":
            return "not counted"


def _largest(view: View, segments: tuple[Segment, ...], tokens: Tokens, whole: int) -> Iterator[Line]:
    measured = sorted((s for s in segments if s.tokens), key=lambda s: -(s.tokens or 0))
    shown = measured[: view.limit(_LARGEST)]
    if len(measured) < 2:
        return
    yield BLANK
    yield line(" " * _INDENT, Run("largest segments", "strong"))
    room = view.width - _INDENT - _KIND - _COUNT - 19
    for segment in shown:
        size = round((segment.tokens or 0) * tokens.factor)
        name = f"{DOT}{escape(name_of(segment.name, view.show_text))}" if segment.name else ""
        restored = f"{DOT}restored from an earlier answer" if segment.inferred else ""
        path = escape(segment.path)
        where = clip_path(path, room) + clip(name + restored, max(room - cells(path), 0))
        yield line(
            " " * _INDENT,
            f"{segment.kind:<{_KIND + _COUNT}}{number(size):>11}  {percent(size, whole):>4}  {where}",
        )
    yield from more(len(measured) - len(shown), "segment", _INDENT)
