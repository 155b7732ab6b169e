"""What the page gets: an index that it reads at once, a block for each conversation and texts that it reads when they are
looked at. All is bounded, and what was left out is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_ctx.model import KINDS, Analysis, Conversation, Reading, Segment, wasted_tokens
from otel_ctx.outputs.report import Inputs, TextOf, build, segment
from otel_ctx.outputs.views.composition import Memo, Tile, composition
from otel_ctx.outputs.views.depth import Depth, depth
from otel_ctx.outputs.views.names import held_back, name_of
from otel_ctx.outputs.views.prefix_map import STATES, Row, prefix_map
from otel_ctx.outputs.views.tools import tools
from otel_ctx.outputs.views.weight import by_weight

KIND_NAMES = (*KINDS, "other")
OUTCOMES = ("hit", "partial", "miss", "cold", "ineligible", "not_reported")
STATUSES = ("ok", "error", "cancelled")
TREEMAP = (800, 450)  # units of the tiles' picture
_CHUNK = 200  # texts in one block
_NONE: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class Bounds:
    """``text``: characters kept of one text; ``texts``: of all together; ``calls``: how many are shown in detail;
    ``tiles``: segments of a window that are tiles of their own."""

    text: int = 8_000
    texts: int = 12_000_000
    calls: int = 20_000
    tiles: int = 20


@dataclass(frozen=True, slots=True)
class Page:
    """Plain values, ready for JSON: ``index``, a block per conversation (None: left out) and the blocks of texts."""

    index: dict[str, Any]
    conversations: tuple[dict[str, Any] | None, ...]
    texts: tuple[list[Any], ...]


_BOUNDS = Bounds()


def page(analysis: Analysis, inputs: Inputs, *, redact: bool = False, bounds: Bounds = _BOUNDS) -> Page:
    """Everything the page shows. With ``redact`` no prompt text is in it. Raises Reconciliation as the report does."""
    if redact:
        analysis = held_back(analysis)
    report = build(analysis, inputs, include_text=not redact)
    calls = report["calls"]
    numbers = {c["id"]: i for i, c in enumerate(calls)}
    readings = {r.call.id: r for r in analysis.readings}
    pool = _Texts(bounds)
    blocks: list[dict[str, Any] | None] = [None] * len(analysis.conversations)
    left, kept_calls = 0, 0
    for i in by_weight(analysis.conversations, readings):
        c = analysis.conversations[i]
        if kept_calls and kept_calls + len(c.calls) > bounds.calls:
            left += 1
            continue
        kept_calls += len(c.calls)
        own = [calls[numbers[id_]] for id_ in c.calls]
        blocks[i] = _block(
            c, own, readings, numbers, _Segments(pool, None if redact else analysis.text), bounds
        )
    home = {id_: i for i, c in enumerate(analysis.conversations) for id_ in c.calls}
    index = {
        "redacted": redact,
        "kinds": list(KIND_NAMES),
        "states": list(STATES),
        "outcomes": list(OUTCOMES),
        "statuses": list(STATUSES),
        "treemap": list(TREEMAP),
        "chunk": _CHUNK,
        "input": report["input"],
        "totals": report["totals"],
        "ignored": report["ignored"],
        "services": _services(analysis),
        "conversations": [
            _summary(c, told, readings, numbers, blocks[i] is not None)
            for i, (c, told) in enumerate(zip(analysis.conversations, report["conversations"], strict=True))
        ],
        "calls": [_line(c, home[c["id"]]) for c in calls],
        "findings": [_short({**f, "calls": _numbered(f["calls"], numbers)}) for f in report["findings"]],
        "not_checked": [{**n, "calls": _numbered(n["calls"], numbers)} for n in report["not_checked"]],
        "left_out": {
            "conversations": left,
            "texts": pool.left_out,
            "cut": pool.cut,
            "characters": bounds.text,
        },
    }
    return Page(index, tuple(blocks), tuple(pool.chunks))


def _numbered(ids: Sequence[str], numbers: Mapping[str, int]) -> list[int]:
    return [numbers[id_] for id_ in ids if id_ in numbers]


def _short(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is missing: null and absent are the same to the page."""
    return {k: v for k, v in value.items() if v not in _NONE}


# ---- the index


def _services(analysis: Analysis) -> list[dict[str, Any]]:
    """Sums by service, the costliest first."""
    by_name: dict[str, list[Reading]] = {}
    for r in analysis.readings:
        by_name.setdefault(r.call.service, []).append(r)
    out = []
    for name, own in by_name.items():
        inputs = [r.call.usage.input for r in own if r.call.usage.input is not None]
        costs = [r.cost.usd for r in own if r.cost is not None]
        out.append({
            "name": name,
            "conversations": len({r.conversation for r in own}),
            "calls": len(own),
            "errors": sum(r.call.status == "error" for r in own),
            "input": sum(inputs) if inputs else None,
            "wasted": wasted_tokens(own),
            "usd": round(sum(costs), 8) if costs else None,
            "fullest": max((r.context.utilization for r in own if r.context.utilization is not None), default=None),
        })  # fmt: skip
    return sorted(out, key=lambda s: (-(s["wasted"] or 0), -(s["usd"] or 0), s["name"]))


def _summary(
    c: Conversation,
    told: Mapping[str, Any],
    readings: Mapping[str, Reading],
    numbers: Mapping[str, int],
    detailed: bool,
) -> dict[str, Any]:
    own = [readings[call] for call in c.calls]
    costs = [r.cost for r in own if r.cost is not None]
    out = {k: v for k, v in told.items() if k not in ("calls", "parent")}
    return _short({
        **out,
        "parent": numbers.get(c.parent or ""),
        "calls": _numbered(c.calls, numbers),
        "errors": sum(r.call.status == "error" for r in own),
        "wasted": wasted_tokens(own),
        "usd": round(sum(c.usd for c in costs), 8) if costs else None,
        "usd_low": round(sum(c.low for c in costs), 8) if costs else None,
        "usd_high": round(sum(c.high for c in costs), 8) if costs else None,
        "start": min((r.call.start_unix_nano for r in own if r.call.start_unix_nano), default=0) // 1_000_000,
        "detailed": detailed,
    })  # fmt: skip


def _line(c: Mapping[str, Any], conversation: int) -> list[Any]:
    """A row of the list of all calls: conversation, turn, usage, outcome, cause, wasted, usd, status, start in ms, model."""
    cache, waste, cost = c["cache"], c["waste"], c["cost"]
    outcome = cache["outcome"]
    return [
        conversation,
        c["turn"],
        c["context"]["usage"],
        OUTCOMES.index(outcome) if outcome in OUTCOMES else None,
        cache["cause"],
        waste["tokens"] if waste else None,
        cost["usd"] if cost else None,
        STATUSES.index(c["status"]),
        c["start_unix_nano"] // 1_000_000,
        c["model"],
    ]


# ---- a conversation


def _block(
    c: Conversation,
    calls: Sequence[dict[str, Any]],
    readings: Mapping[str, Reading],
    numbers: Mapping[str, int],
    segments: _Segments,
    bounds: Bounds,
) -> dict[str, Any]:
    curve = depth(c, readings)
    own = {call["id"]: i for i, call in enumerate(calls)}
    memo: Memo = {}
    details = []
    for call, point, row in zip(calls, curve.points, prefix_map(c, readings), strict=True):
        reading = readings[call["id"]]
        tiles = composition(reading, *TREEMAP, most=bounds.tiles, memo=memo)
        details.append({
            **_call(call, numbers),
            "segments": _own_segments(call["segments"], reading, own, segments),
            "kinds": {str(KIND_NAMES.index(k)): v for k, v in point.kinds.items()},
            "row": _row(row),
            "tiles": [_tile(t) for t in tiles],
            **_short({"change": point.change}),
        })  # fmt: skip
    common = (
        {k: v for k, v in details[0].items() if all(k in d and d[k] == v for d in details)} if details else {}
    )
    return {
        "depth": _depth(curve),
        "tools": [
            [name_of(t.name, segments.with_text), t.path, t.tokens, t.requests, t.called]
            for t in tools(c, readings)
        ],
        "segments": segments.rows,
        "common": common,  # of all its calls
        "calls": [{k: v for k, v in d.items() if k not in common} for d in details],
    }


def _tile(t: Tile) -> list[int]:
    """kind, segment or −1 − how many it stands for, x, y, width, height, and its tokens where no segment tells them."""
    at = [round(n) for n in (t.x, t.y, t.width, t.height)]
    kind = KIND_NAMES.index(t.kind)
    return [kind, -1 - t.segments, *at, t.tokens] if t.segment is None else [kind, t.segment, *at]


def _depth(curve: Depth) -> dict[str, Any]:
    return _short({
        "limit": curve.limit, "reserve": curve.reserve, "growth": curve.growth, "full_at": curve.full_at,
        "peak": curve.peak,
    })  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    return _short({
        "source": row.source,
        "parts": [[STATES.index(s.state), s.tokens] for s in row.stretches],
        "break": row.break_at,
    })  # fmt: skip


_LEFT = {
    "conversation", "segments", "start_unix_nano", "end_unix_nano", "first_token_unix_nano", "previous", "spans", "findings",
    "usage", "cost",
}  # fmt: skip


def _call(call: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    start, end, first = (call[k] for k in ("start_unix_nano", "end_unix_nano", "first_token_unix_nano"))
    told = {k: _short(v) if isinstance(v, dict) else v for k, v in call.items() if k not in _LEFT}
    return _short({
        **told,
        "start": start // 1_000_000,
        "ms": round((end - start) / 1e6, 1) if start and end else None,
        "first_token_ms": round((first - start) / 1e6, 1) if first and start else None,
        "previous": numbers.get(call["previous"] or ""),
        "spans": len(call["spans"]) if len(call["spans"]) > 1 else None,
        "usage": _short({k: v for k, v in call["usage"].items() if k != "semantics_evidence"}),
        "cost": _short({k: cost[k] for k in ("usd", "usd_low", "usd_high")}) if (cost := call["cost"]) else None,
    })  # fmt: skip


def _own_segments(told: Mapping[str, Any], r: Reading, own: Mapping[str, int], table: _Segments) -> list[Any]:
    """[call of this conversation that it continues or -1, how many it shares, the new ones]. What another conversation
    holds is written out: its block may not be read."""
    base = own.get(told["from"] or "")
    if base is None:
        return [-1, 0, [table.number(s) for s in r.call.prompt]]
    return [base, told["same"], [table.number(s) for s in r.call.prompt.since(told["same"])]]


class _Segments:
    """The segments of a conversation, each once: kind, role, name, path, bytes, tokens, method, digest, marker,
    inferred, text."""

    def __init__(self, pool: _Texts, text: TextOf | None) -> None:
        self.rows: list[list[Any]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._pool = pool
        self._text = text
        self.with_text = text is not None

    def number(self, of: Segment) -> int:
        s = segment(of, self._text)
        key = (
            KIND_NAMES.index(s["kind"]), s["role"], s["name"], s["path"], s["bytes"], s["tokens"], s["method"],
            s["digest"][:16], s["cache_marker"], int(of.inferred),
        )  # fmt: skip
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.rows)
            self.rows.append([*key, self._pool.number(of.digest, s.get("text"))])
        return known


class _Texts:
    """Each text once, in blocks; its number is its place. A long one is its beginning and its length in characters."""

    def __init__(self, bounds: Bounds) -> None:
        self.chunks: list[list[Any]] = []
        self.left_out = 0
        self.cut = 0
        self._bounds = bounds
        self._size = 0
        self._known: dict[str, int | None] = {}

    def number(self, digest: str, text: str | None) -> int | None:
        if text is None:
            return None
        if digest not in self._known:
            self._known[digest] = self._put(text)
        return self._known[digest]

    def _put(self, text: str) -> int | None:
        kept = text[: self._bounds.text]
        if self._size + len(kept) > self._bounds.texts:
            self.left_out += 1
            return None
        self._size += len(kept)
        self.cut += len(kept) < len(text)
        if not self.chunks or len(self.chunks[-1]) == _CHUNK:
            self.chunks.append([])
        self.chunks[-1].append(kept if len(kept) == len(text) else [kept, len(text)])
        return (len(self.chunks) - 1) * _CHUNK + len(self.chunks[-1]) - 1
