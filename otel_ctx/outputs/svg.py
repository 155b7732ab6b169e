"""A picture of one conversation for READMEs and pull requests: depth over turns, and the prefix map.

No prompt text, no names of tools, no script; it follows the reader's light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape as quoted

from otel_ctx.model import KINDS, Analysis, Conversation
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.views.depth import Depth, depth
from otel_ctx.outputs.views.names import held_back
from otel_ctx.outputs.views.prefix_map import STATES, Row, State, prefix_map
from otel_ctx.outputs.views.weight import by_weight

_WIDTH = 860
_LEFT, _RIGHT = 56, 12
_PLOT = 180  # height of the curve
_ROW = 13
_ROWS = 48  # turns that are drawn in the map
_POINTS = 400  # turns that the curve is drawn from
_AHEAD = 1.2  # how far the projection is drawn, in turns that there are

_COLOURS: Mapping[str, str] = {
    "tools": "#332288", "system": "#117733", "user": "#88ccee", "assistant": "#ddcc77", "tool_call": "#999933",
    "tool_result": "#cc6677", "image": "#aa4499", "file": "#882255", "thinking": "#44aa99", "other": "#9aa1a9",
}  # fmt: skip
_WORDS: Mapping[State, str] = {
    "read": "R read from the cache", "lost": "L lost: billed again", "written": "W written", "fresh": "N new, not cached",
    "unknown": "? cache not told",
}  # fmt: skip
_STYLE = """
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#57606a}
.h{font-size:14px;font-weight:600;fill:#1b1f23}.e{text-anchor:end}.m{text-anchor:middle}.paper{fill:#fff}.line{stroke:#d4d8dd}
.curve,.ahead{fill:none;stroke:#1b1f23;stroke-width:1.5}.ahead{stroke-dasharray:5 4}.break{fill:#1b1f23}
.limit{stroke:#b3261e;stroke-width:1.5;stroke-dasharray:9 3}
.read{fill:#4b8fd1}.lost{fill:url(#lost)}.written{fill:url(#written)}.fresh{fill:#c9ced4}.unknown{fill:#e9ebee}
.gl{fill:#d55e00}.il{stroke:#fff;stroke-width:1.4}.gw{fill:#bfe0d4}.iw{fill:#00705a}
@media(prefers-color-scheme:dark){
text{fill:#a2abb5}.h{fill:#e6e9ec}.paper{fill:#16191d}.line{stroke:#343a41}
.curve,.ahead{stroke:#e6e9ec}.limit{stroke:#ff9d92}.break{fill:#e6e9ec}
.read{fill:#3f86cc}.fresh{fill:#4d555e}.unknown{fill:#2a2f35}
.gl{fill:#e06c14}.il{stroke:#2a1000}.gw{fill:#1d4a40}.iw{fill:#63d3b6}
}
"""
_PATTERNS = (
    '<pattern id="lost" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="gl" width="6" height="6"/>'
    '<path class="il" d="M-1,7L7,-1M-1,1L1,-1M5,7L7,5"/></pattern>'
    '<pattern id="written" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="gw" width="6" height="6"/>'
    '<circle class="iw" cx="3" cy="3" r="1.1"/></pattern>'
)


def draw(analysis: Analysis, conversation: Conversation | None = None) -> bytes:
    """``conversation``, or the one that lost the most: an SVG as UTF-8."""
    analysis = held_back(analysis)
    readings = {r.call.id: r for r in analysis.readings}
    if conversation is not None:
        conversation = next((c for c in analysis.conversations if c.id == conversation.id), conversation)
    else:
        heaviest = by_weight(analysis.conversations, readings)
        if not heaviest:
            return _document(
                60, "No model call", ['<text class="h" x="12" y="32">No model call in this input.</text>']
            )
        conversation = analysis.conversations[heaviest[0]]
    curve, rows = depth(conversation, readings), prefix_map(conversation, readings)
    shown = rows[-_ROWS:]
    title = " › ".join(filter(None, (*conversation.services[:1], *conversation.agents[:1]))) or "conversation"
    said = _said(curve, rows)
    body = [
        f'<text class="h" x="12" y="24">{_text(title)}</text>',
        f'<text x="12" y="42">{_text(said)}</text>',
        f'<g transform="translate(0 56)">{"".join(_curve(curve))}</g>',
        f'<g transform="translate(0 {56 + _PLOT + 58})">{"".join(_map(shown, len(rows)))}</g>',
    ]
    return _document(56 + _PLOT + 58 + 24 + len(shown) * _ROW + 34, f"{title}: {said}", body)


def _document(height: int, title: str, body: Iterable[str]) -> bytes:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img"><title>{_text(title)}</title><style>{_STYLE}</style><defs>{_PATTERNS}</defs>'
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="4"/>{"".join(body)}</svg>\n'
    ).encode()


def _text(value: str) -> str:
    return quoted(escape(value))


def _said(curve: Depth, rows: Sequence[Row]) -> str:
    told = f"{len(rows):,} turns" if len(rows) != 1 else "1 turn"
    if curve.peak is not None:
        told += f" · deepest {curve.peak:,} tokens"
        if curve.limit:
            told += f" of {curve.limit:,} ({curve.peak / curve.limit:.0%})"
    if curve.full_at is not None:
        told += f" · full at about turn {int(curve.full_at):,}"
    lost = sum(s.tokens for r in rows for s in r.stretches if s.state == "lost")
    return told + (f" · {lost:,} tokens billed again" if lost else "")


def _curve(curve: Depth) -> Iterator[str]:
    points, peak = curve.points, curve.peak or 1
    end = max(2.0, len(points) * _AHEAD)
    near = bool(curve.limit and peak > curve.limit / 4)
    top = max(1.0, curve.limit * 1.04 if near and curve.limit else peak * 1.25)

    def x(turn: float) -> float:
        return round(_LEFT + (turn - 1) / (end - 1) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(tokens: float) -> float:
        return round((1 - tokens / top) * _PLOT, 1)

    for share in (0.0, 0.5, 1.0):
        yield f'<path class="line" d="M{_LEFT},{y(top * share)}H{_WIDTH - _RIGHT}"/>'
        yield f'<text class="e" x="{_LEFT - 6}" y="{y(top * share) + 4}">{_short(top * share)}</text>'
    every = max(1, -(-len(points) // _POINTS))
    picked = [i for i in range(len(points)) if i % every == 0 or i == len(points) - 1]
    below = dict.fromkeys(picked, 0)
    used = [k for k in (*KINDS, "other") if any(points[i].kinds.get(k) for i in picked)]
    for kind in used:
        lower = [(x(i + 1), y(below[i])) for i in picked]
        for i in picked:
            below[i] += points[i].kinds.get(kind, 0)
        upper = [(x(i + 1), y(below[i])) for i in picked]
        if len(picked) == 1:  # one turn has no width: it is a bar
            lower.append((lower[0][0] + 8, lower[0][1]))
            upper.append((upper[0][0] + 8, upper[0][1]))
        outline = " ".join(f"{a},{b}" for a, b in (*upper, *reversed(lower)))
        yield f'<polygon fill="{_COLOURS[kind]}" points="{outline}"/>'
    known = [(i, usage) for i in picked if (usage := points[i].usage) is not None]
    if known:
        yield f'<path class="curve" d="M{"L".join(f"{x(i + 1)},{y(usage)}" for i, usage in known)}"/>'
        last, usage = known[-1]
        if curve.growth and curve.growth > 0:
            full = end if curve.full_at is None else curve.full_at - points[-1].turn + len(points)
            stop = min(end, full)
            ahead = min(top, usage + curve.growth * (stop - last - 1))
            yield f'<path class="ahead" d="M{x(last + 1)},{y(usage)}L{x(stop)},{y(ahead)}"/>'
    if curve.limit and curve.limit <= top:
        yield f'<path class="limit" d="M{_LEFT},{y(curve.limit)}H{_WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT + 6}" y="{y(curve.limit) + 14}">limit {curve.limit:,}</text>'
    for n in sorted({1, (len(points) + 1) // 2, len(points)} - {0}):
        yield f'<text class="m" x="{x(n)}" y="{_PLOT + 15}">{points[n - 1].turn:,}</text>'
    yield from _legend(((f'fill="{_COLOURS[k]}"', k.replace("_", " ")) for k in used), _PLOT + 34)


def _map(rows: Sequence[Row], turns: int) -> Iterator[str]:
    most = max((r.usage or 0 for r in rows), default=0) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    older = f" (the last {len(rows)} of {turns:,} turns)" if len(rows) < turns else ""
    yield f'<text x="{_LEFT}" y="12">from the first token of each prompt to the last{older}; ▼ the first change</text>'
    for n, row in enumerate(rows):
        top = 20 + n * _ROW
        yield f'<text class="e" x="{_LEFT - 6}" y="{top + 10}">{row.turn}</text>'
        start = 0
        for state, tokens in row.stretches:
            width = max(tokens * scale, 0.5)
            yield (
                f'<rect class="{state}" x="{_LEFT + start * scale:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 2}"/>'
            )
            start += tokens
        if row.break_at is not None:
            at = _LEFT + row.break_at * scale
            yield f'<path class="break" d="M{at - 4:.1f},{top - 1}h8l-4,6z"/>'
    seen = [s for s in STATES if any(s == state for r in rows for state, _ in r.stretches)]
    yield from _legend(((f'class="{s}"', _WORDS[s]) for s in seen), 24 + len(rows) * _ROW + 14)


def _legend(keys: Iterable[tuple[str, str]], y: int) -> Iterator[str]:
    x = float(_LEFT)
    for fill, words in keys:
        yield f'<rect {fill} x="{x:.0f}" y="{y - 9}" width="12" height="10"/><text x="{x + 17:.0f}" y="{y}">{words}</text>'
        x += 34 + 6.6 * len(words)


def _short(tokens: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens >= size:
            return f"{tokens / size:.1f}".rstrip("0").rstrip(".") + unit
    return f"{tokens:.0f}"
