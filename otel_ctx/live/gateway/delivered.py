"""What was added to spans of late, so that a batch that comes a second time gets the same and is counted once.

Generations by age and by size: what was put in stays for ``keep`` seconds at least and for a third more at most, unless the
bound on its size lets it go early. Additions are packed by the dozen: those of one batch differ in little but ids and numbers.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

import xxhash

_ENTRY = 110  # bytes that a key and its place take
_BLOCK = 64  # additions in one
_PARTS = 3  # of ``keep``, each a generation; one more is being filled
_HEAD = Struct("<QI")  # of an addition in a block: key, bytes
_NOTHING = b""
# What nearly all additions have in common: deflate finds it here and stores a reference.
_WORDS = b"".join(
    bytes((10, len(word))) + word.encode() + b"\x12\x02"
    for word in (
        "otelctx.finding.kind otelctx.finding.severity otelctx.finding.title otelctx.finding.detail otelctx.finding.path "
        "otelctx.finding.tokens otelctx.finding.evidence otelctx.finding warning info error predicted reported inferred "
        "otelctx.cache.break.path otelctx.cache.break.kind otelctx.cache.break.tokens otelctx.findings "
        "otelctx.cache.read.predicted otelctx.cache.read.reported otelctx.cache.read.optimal otelctx.waste.tokens "
        "otelctx.cache.outcome otelctx.cache.cause otelctx.cache.evidence otelctx.cost.usd otelctx.tokens.unaccounted "
        "otelctx.segments.tool_result.tokens otelctx.segments.tool_call.tokens otelctx.segments.assistant.tokens "
        "otelctx.segments.user.tokens otelctx.segments.system.tokens otelctx.segments.tools.tokens "
        "otelctx.segments.thinking.tokens otelctx.tokens.method exact calibrated estimated otelctx.context.usage "
        "otelctx.context.limit otelctx.context.utilization otelctx.context.headroom otelctx.context.headroom_turns "
        "otelctx.context.growth otelctx.completeness full partial usage_only otelctx.completeness.reasons "
        "otelctx.conversation.id otelctx.conversation.turn otelctx.conversation.relation continues new "
        "otelctx.provisional otelctx.call.role primary duplicate aggregate"
    ).split()
)


@dataclass(slots=True)
class Generation:
    """``blocks``: key -> the block that holds what was added, many keys to one; ``begun``: on the clock of the process."""

    begun: float
    blocks: dict[int, bytes] = field(default_factory=dict)
    size: int = 0


class Snapshot(NamedTuple):
    """``age``: of each generation in seconds, the oldest first."""

    generations: tuple[tuple[float, dict[int, bytes]], ...]


class Delivered:
    """``most``: bytes, about, for all generations."""

    def __init__(self, keep: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep, self._clock = keep, clock
        self._most = most // (_PARTS + 1)  # of each
        self._all = [Generation(clock())]
        self._open: dict[int, bytes] = {}  # what was added last, in no block yet
        self._read: tuple[bytes, dict[int, bytes]] = (_NOTHING, {})  # the last block that was opened
        self.early = 0  # spans that were let go before their time

    def __len__(self) -> int:
        return sum(len(g.blocks) for g in self._all) + len(self._open)

    def get(self, key: int) -> bytes | None:
        """What was added; b"" where nothing was; None where the span is not known."""
        self._turn()
        added = self._open.get(key)
        if added is not None:
            return added
        block = next((b for g in reversed(self._all) if (b := g.blocks.get(key)) is not None), None)
        if not block:
            return block
        if block is not self._read[0]:  # a batch that comes again asks for one block after the other
            self._read = block, dict(_unpacked(block))
        return self._read[1][key]

    def put(self, key: int, added: bytes) -> None:
        self._turn()
        newest = self._all[-1]
        newest.size += _ENTRY
        if added:
            self._open[key] = added
            if len(self._open) >= _BLOCK:
                self._close()
        else:
            newest.blocks[key] = _NOTHING

    def snapshot(self) -> Snapshot:
        self._close()
        now = self._clock()
        return Snapshot(tuple((now - g.begun, g.blocks) for g in self._all))

    def restore(self, kept: Snapshot, passed: float) -> None:
        """As it was ``passed`` seconds ago."""
        now = self._clock()
        self._open = {}
        self._all = [Generation(now - age - max(passed, 0.0), blocks) for age, blocks in kept.generations]
        for g in self._all:
            packed = {id(block): len(block) for block in g.blocks.values()}
            g.size = _ENTRY * len(g.blocks) + sum(packed.values())
        self._turn()

    def _turn(self) -> None:
        now, part = self._clock(), self._keep / _PARTS
        newest = self._all[-1]
        if newest.size < self._most and now - newest.begun < part:
            return
        self._close()
        self._all = [g for g in self._all if now - g.begun < self._keep + part]  # the last of it came by then
        self._all.append(Generation(now))
        while len(self._all) > _PARTS + 1:  # full before their time
            self.early += len(self._all.pop(0).blocks)

    def _close(self) -> None:
        if self._open:
            block = _packed(self._open)
            newest = self._all[-1]
            newest.blocks.update(dict.fromkeys(self._open, block))
            newest.size += len(block)
            self._open.clear()


def key_of(tenant: str, trace_id: bytes, span_id: bytes) -> int:
    """60 bits: a number that takes 32 bytes. Two spans of those that are known have one key once in 10^12 spans."""
    return xxhash.xxh3_64_intdigest(tenant.encode("utf-8", "replace") + trace_id + span_id) >> 4


def _packed(additions: dict[int, bytes]) -> bytes:
    packer = zlib.compressobj(6, zdict=_WORDS)
    parts = [packer.compress(_HEAD.pack(key, len(added)) + added) for key, added in additions.items()]
    return b"".join((*parts, packer.flush()))


def _unpacked(block: bytes) -> Iterator[tuple[int, bytes]]:
    unpacker = zlib.decompressobj(zdict=_WORDS)
    content = unpacker.decompress(block) + unpacker.flush()
    at = 0
    while at < len(content):
        key, size = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        yield key, content[at : at + size]
        at += size
