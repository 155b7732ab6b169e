"""What was added to spans of late, so that a batch that comes a second time gets the same and is counted once.

Two generations by age and by size: what was put in stays for ``keep`` seconds at least, unless the bound on its
size lets it go early.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import xxhash

_ENTRY = 150  # bytes that a key and its place take
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


class Snapshot(NamedTuple):
    """``ages``: of the two generations in seconds, older first."""

    generations: tuple[dict[bytes, bytes], dict[bytes, bytes]]
    ages: tuple[float, float]


class Delivered:
    """``most``: bytes, about, for both generations."""

    def __init__(self, keep: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep, self._half, self._clock = keep, most // 2, clock
        self._old: dict[bytes, bytes] = {}
        self._new: dict[bytes, bytes] = {}
        self._size = 0
        self._begun = self._begun_old = clock()
        self.early = 0  # spans that were let go before their time

    def __len__(self) -> int:
        return len(self._old) + len(self._new)

    def get(self, key: bytes) -> bytes | None:
        """What was added; b"" where nothing was; None where the span is not known."""
        self._turn()
        packed = self._new.get(key)
        if packed is None:
            packed = self._old.get(key)
        return _unpacked(packed) if packed else packed

    def put(self, key: bytes, added: bytes) -> None:
        self._turn()
        packed = _packed(added) if added else _NOTHING
        self._new[key] = packed
        self._size += _ENTRY + len(packed)

    def snapshot(self) -> Snapshot:
        now = self._clock()
        return Snapshot((self._old, self._new), (now - self._begun_old, now - self._begun))

    def restore(self, kept: Snapshot, passed: float) -> None:
        """As it was ``passed`` seconds ago."""
        now = self._clock()
        self._old, self._new = kept.generations
        self._begun_old, self._begun = (now - age - max(passed, 0.0) for age in kept.ages)
        self._size = sum(_ENTRY + len(packed) for packed in self._new.values())

    def _turn(self) -> None:
        now = self._clock()
        if self._size < self._half and now - self._begun < self._keep:
            return
        if now - self._begun < self._keep:  # full: what is in the older one may be too young to go
            self.early += len(self._old)
        elif now - self._begun >= 2 * self._keep:
            self._new = {}
        self._old, self._new, self._size = self._new, {}, 0
        self._begun_old, self._begun = self._begun, now


def key_of(tenant: str, trace_id: bytes, span_id: bytes) -> bytes:
    return xxhash.xxh3_128_digest(tenant.encode("utf-8", "replace") + trace_id + span_id)


def _packed(added: bytes) -> bytes:
    packer = zlib.compressobj(1, zdict=_WORDS)
    return packer.compress(added) + packer.flush()


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(zdict=_WORDS)
    return unpacker.decompress(packed) + unpacker.flush()
