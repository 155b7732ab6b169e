"""The providers' caches, plainly: as their pages describe them, over what was sent. Easy to check.

Sources: the providers' prompt-caching pages (Anthropic, Bedrock, Vertex, OpenAI and Azure, Mistral, Gemini, DeepSeek).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import tiktoken

from otel_ctx.tokens import vocabulary
from tests.oracle.sessions import Block, Call, Session, World

LOOKBACK = 20
ENDINGS = 20
IMAGE = 4  # an image has that many tokens for each character of its data
_TTL = {"5m": 300.0, "1h": 3600.0}
_FOREVER = 1e12


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=vocabulary.VOCABULARIES["o200k_base"].pattern,
        mergeable_ranks=vocabulary.load("o200k_base"),
        special_tokens={},
    )


@lru_cache(maxsize=20_000)
def encode(text: str) -> tuple[int, ...]:
    return tuple(_encoding().encode_ordinary(text))


@dataclass(slots=True)
class Unit:
    """A block as it is laid before the model: tokens from ``start`` to ``end``."""

    uid: str
    prefix: int  # the identity of all up to its end
    ids: tuple[int, ...]
    start: int
    end: int
    block: Block | None  # None: hidden text of the provider's

    @property
    def marker(self) -> str:
        return self.block.marker if self.block is not None else ""


@dataclass(frozen=True, slots=True)
class Usage:
    total: int
    read: int
    write: int = 0
    write_1h: int = 0
    minimum_met: bool = True


@dataclass(slots=True)
class _Entry:
    available: float
    expires: float
    ttl: float


@dataclass(slots=True)
class _Past:
    units: list[Unit]
    seed: tuple[Any, ...]
    available: float
    expires: float


@dataclass(slots=True)
class _Cache:
    entries: dict[Any, _Entry] = field(default_factory=dict)
    past: list[_Past] = field(default_factory=list)


@lru_cache(maxsize=50_000)
def _laid(block: Block, opens: bool, frame: int, scale: float) -> tuple[int, tuple[int, ...], int]:
    """Identity, tokens of o200k, size in the provider's own."""
    ids = (-2, len(block.role), *((-3,) * (frame - 2))) if opens else ()
    ids += tuple(map(ord, block.text * IMAGE)) if block.kind == "image" else encode(block.text)
    if block.kind in ("tool_use", "tool_result"):
        ids = (*ids, *encode(block.name + block.call_id))
    key = (block.section, block.kind, block.role, block.name, block.call_id, block.text)
    return hash(key), ids, round(len(ids) * scale)


_Made = dict[tuple[int, int, int, bool], Unit]


def _layout(call: Call, world: World, made: _Made, *, remembers: bool) -> list[Unit]:
    """Tools, system, messages; a frame of hidden tokens before each message, and what tools cost beside their text. Some
    models take the thinking out that stands before a user's newest words, unless one ``remembers``.

    ``made``: the units of the session's other calls. A block that follows the same text is the same unit."""
    forgets = call.model in world.provider.forgets and not remembers
    newest = _newest_words(call) if forgets else 0
    units: list[Unit] = []
    prefix = at = 0
    if world.overhead and any(b.section == "tools" for b in call.blocks):
        prefix, at = hash("overhead"), world.overhead
        units.append(Unit("overhead", prefix, (-1,) * at, 0, at, None))
    before = None
    for i, block in enumerate(call.blocks):
        if block.kind == "thinking" and forgets and i < newest:
            continue
        opens = block.section != "messages" or block.message != before
        before = block.message if block.section == "messages" else None
        place = (prefix, at, id(block), opens)
        unit = made.get(place)
        if unit is None:
            key, ids, size = _laid(block, opens, world.per_message, world.scale)
            unit = made[place] = Unit(block.uid, hash((prefix, key)), ids, at, at + size, block)
        units.append(unit)
        prefix, at = unit.prefix, unit.end
    return units


def _newest_words(call: Call) -> int:
    for i in range(len(call.blocks) - 1, -1, -1):
        block = call.blocks[i]
        if block.section == "messages" and block.role == "user" and block.kind == "text":
            return i
    return 0


Layouts = list[list[Unit]]


def layouts(session: Session, *, remembers: bool = False) -> Layouts:
    made: _Made = {}
    return [_layout(call, session.world, made, remembers=remembers) for call in session.calls]


def simulate(
    session: Session,
    laid: Layouts,
    *,
    no_expiry: bool = False,
    at_once: bool = False,
    no_drops: bool = False,
    blind: bool = False,
) -> list[Usage]:
    """The usage of each call, laid out as ``laid``. ``no_expiry``: entries live for ever; ``at_once``: they can be read as
    soon as a request has started; ``no_drops``: the provider never fails to read; ``blind``: an image that comes or goes
    costs nothing."""
    caches: dict[str, _Cache] = {}
    said = []
    for number, (call, units) in enumerate(zip(session.calls, laid, strict=True)):
        cache = caches.setdefault(call.model, _Cache())
        world = session.world
        dropped = number in world.drops and not no_drops
        available = call.start if at_once else call.first
        lifetime = _FOREVER if no_expiry else 0.0
        if world.provider.engine == "breakpoint":
            seeds = _seeds(call, world, blind)
            said.append(_breakpoints(cache, call, units, seeds, world, available, lifetime, dropped))
        elif world.provider.engine == "endings":
            said.append(_endings(cache, call, units, world, available, lifetime, dropped))
        else:
            said.append(_prefixes(cache, call, units, world, available, lifetime, dropped))
    return said


# ---- Anthropic, on its own API, Bedrock and Vertex


def _seeds(call: Call, world: World, blind: bool) -> tuple[int, int]:
    """What belongs to the identity of tools and system, and to that of messages beside their text: tool choice and the like
    are of the messages only, and so is how many images there are anywhere."""
    thinking = repr(call.params.get("thinking"))
    images = 0 if blind else sum(b.kind == "image" for b in call.blocks)
    head = hash("" if world.thinking_keeps_head else thinking)
    return head, hash((head, repr((call.params.get("tool_choice"), thinking, images))))


def _identity(unit: Unit, seeds: tuple[int, int]) -> tuple[int, int]:
    inside = unit.block is not None and unit.block.section == "messages"
    return unit.prefix, seeds[inside]


def _breakpoints(
    cache: _Cache,
    call: Call,
    units: list[Unit],
    seeds: tuple[int, int],
    world: World,
    available: float,
    lifetime: float,
    dropped: bool,
) -> Usage:
    total = units[-1].end
    points = [i for i, u in enumerate(units) if u.marker]
    assert len(points) <= 4, "a fifth breakpoint is an error of the request"
    eligible = [i for i in points if units[i].end >= world.provider.minimum]
    hit = -1
    if not dropped:
        for point in reversed(eligible):
            back = _back(units, point, world.provider.runs)
            found = next((i for i in back if _live(cache, _identity(units[i], seeds), call)), -1)
            hit = max(hit, found)
            if found >= 0:
                break
    read = units[hit].end if hit >= 0 else 0
    if hit >= 0:
        for i in {hit, *(p for p in eligible if p < hit)}:
            entry = cache.entries.get(_identity(units[i], seeds))
            if entry is not None and entry.expires > call.start:
                entry.expires = max(entry.expires, call.start + entry.ttl)
    last = units[eligible[-1]].end if eligible else 0
    hours = [i for i in eligible if units[i].end > read and units[i].marker == "1h"]
    for i in eligible:
        if units[i].end > read:
            ttl = lifetime or _TTL[units[i].marker]
            _store(cache, _identity(units[i], seeds), call.start, available, ttl)
    write = max(last - read, 0)
    write_1h = max(units[hours[-1]].end - read, 0) if hours else 0
    return Usage(total, read, write, write_1h, bool(eligible))


def _back(units: list[Unit], point: int, runs: bool) -> Iterator[int]:
    """The places that a breakpoint is looked up at, the nearest first."""
    positions = 1
    yield point
    for i in range(point - 1, -1, -1):
        nearer, block = units[i + 1].block, units[i].block
        if block is None:
            return
        same = nearer is not None and block.kind == nearer.kind and block.kind in ("tool_use", "tool_result")
        positions += not (runs and same)
        if positions > LOOKBACK:
            return
        yield i


def _live(cache: _Cache, key: Any, call: Call) -> bool:
    entry = cache.entries.get(key)
    return entry is not None and entry.available <= call.start < entry.expires


def _store(cache: _Cache, key: Any, start: float, available: float, ttl: float) -> None:
    old = cache.entries.get(key)
    if old is not None and old.expires > start:
        old.available = min(old.available, available)
        old.expires, old.ttl = max(old.expires, start + ttl), max(old.ttl, ttl)
    else:
        cache.entries[key] = _Entry(available, start + ttl, ttl)


# ---- OpenAI from GPT-5.6 on: an entry ends where a message ends


def _endings(
    cache: _Cache,
    call: Call,
    units: list[Unit],
    world: World,
    available: float,
    lifetime: float,
    dropped: bool,
) -> Usage:
    seed = hash(repr(sorted(call.params.items())))
    ends: list[tuple[tuple[int, int], int]] = []  # (identity, tokens) at the end of each message
    developer: tuple[tuple[int, int], int] | None = None
    for i, unit in enumerate(units):
        following = units[i + 1].block if i + 1 < len(units) else None
        block = unit.block
        assert block is not None
        if block.section == "system" and (following is None or following.section != "system"):
            developer = ((unit.prefix, seed), unit.end)
        elif block.section == "messages" and (following is None or following.message != block.message):
            ends.append(((unit.prefix, seed), unit.end))
    total = units[-1].end
    if total < world.provider.minimum:
        return Usage(total, 0, minimum_met=False)
    looked_up = [ends[-1], *reversed(ends[-1 - ENDINGS : -1])] + ([developer] if developer else [])
    found = [(k, n) for k, n in looked_up if n >= world.provider.minimum and _live(cache, k, call)]
    read = 0 if dropped or not found else max(n for _, n in found)
    ttl = lifetime or world.lifetime
    for key, tokens in found:
        if tokens == read:
            cache.entries[key].expires = call.start + ttl
    _store(cache, ends[-1][0], call.start, available, ttl)
    if developer and world.developer_end and developer[1] >= world.provider.minimum:
        _store(cache, developer[0], call.start, available, ttl)
    return Usage(total, read, total - read)


# ---- everybody else: the longest prefix of an earlier prompt


def _prefixes(
    cache: _Cache,
    call: Call,
    units: list[Unit],
    world: World,
    available: float,
    lifetime: float,
    dropped: bool,
) -> Usage:
    provider, total = world.provider, units[-1].end
    seed = tuple(sorted((k, repr(v)) for k, v in call.params.items() if k != "tool_choice"))
    shared = 0
    for past in reversed(cache.past):
        if past.seed == seed and past.available <= call.start < past.expires:
            shared = max(shared, _shared(past.units, units, world.scale, shared))
    if (
        provider.engine == "intervals"
    ):  # breakpoints each 2,048 tokens, counted from hidden text; reported in steps of 128
        read = (shared + world.hidden) // provider.step * provider.step - world.hidden
        read = max(read, 0) // 128 * 128
    else:
        read = shared // provider.step * provider.step
        read = read if read >= provider.minimum else 0
    cache.past.append(_Past(units, seed, available, call.start + (lifetime or world.lifetime)))
    return Usage(total, 0 if dropped else read, minimum_met=total >= provider.minimum)


def _shared(old: list[Unit], new: list[Unit], scale: float, least: int) -> int:
    """Tokens up to the first that differs; 0 where they are surely no more than ``least``."""
    same = _agree(min(len(old), len(new)), lambda i: old[i].prefix != new[i].prefix)
    if same in (len(old), len(new)):
        return min(old[-1].end, new[-1].end)
    a, b = old[same], new[same]
    if b.end <= least:
        return 0
    same = _agree(min(len(a.ids), len(b.ids)), lambda i: a.ids[: i + 1] != b.ids[: i + 1])
    return b.start + int(same * scale)


def _agree(most: int, differ: Callable[[int], bool]) -> int:
    """How many of the first ``most`` agree, where prefixes are compared: what differs once differs ever after."""
    return bisect_left(range(most), True, key=differ)
