"""Histories that begin as an earlier one did, recognised by digest, so that only what is new in them is read."""

from __future__ import annotations

import marshal
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import xxhash

_FORMAT = 2  # of marshal: typed, exact, keys in their order. Later formats write equal values in several ways
_LIST_HEADER = 5  # bytes before the first item
_NO_TEXT = b"\xff"  # stands in no UTF-8
_HEAD = 2  # items that name a family of sequences
_TAIL = 4  # items that tell sequences of one family and length apart
_PIECE = 128  # items hashed at once: a copy of megabytes costs more than the hash
_LENGTHS = 64  # at which an earlier sequence of the family is looked for, the longest first
_TRIES = 8  # earlier sequences that are compared as a whole


class Beginning(NamedTuple):
    """The first ``size`` items of a sequence are an earlier sequence, known by ``digest``; ``whole`` is the digest of
    all items. b"" stands for nothing known, and for values that have no digest."""

    size: int
    digest: bytes
    whole: bytes


@dataclass(slots=True)
class _Family:
    """Sequences with one head: their lengths, and the digest of each by its length and its tail."""

    sizes: list[int] = field(default_factory=list)
    ends: dict[tuple[int, bytes], bytes] = field(default_factory=dict)


class Beginnings:
    """Remembers about ``capacity`` sequences by digest; none of their content is kept.

    ``written`` gives items as bytes that tell where each of them ends, in however many pieces they are written."""

    def __init__(self, capacity: int, written: Callable[[list[Any]], bytes | memoryview]) -> None:
        self._capacity = capacity
        self._written = written
        self._count = 0
        self._families: dict[bytes, _Family] = {}

    def __len__(self) -> int:
        return self._count

    def of(self, items: list[Any], seed: bytes = b"") -> Beginning:
        """The longest earlier sequence that ``items`` begins with; ``items`` is remembered for later ones.

        Only sequences of one ``seed`` are compared: equal digests mean equal sequences below equal seeds."""
        try:
            return self._of(items, seed)
        except ValueError:  # something that is no plain value
            return Beginning(0, b"", b"")

    def _of(self, items: list[Any], seed: bytes) -> Beginning:
        head = self._digest(items[:_HEAD], seed)
        family = self._families.get(head)
        size, hasher = self._find(items, seed, family) if family is not None else (0, None)
        known = hasher.digest() if hasher is not None else b""
        hasher = hasher or xxhash.xxh3_128(seed)
        self._absorb(hasher, items, size, len(items))
        whole = hasher.digest()
        if size < len(items):
            self._remember(head, (len(items), self._tail(items, len(items))), whole)
        return Beginning(size, known, whole)

    def _find(self, items: list[Any], seed: bytes, family: _Family) -> tuple[int, Any]:
        end = bisect_right(family.sizes, len(items))
        tries = 0
        for size in reversed(family.sizes[max(0, end - _LENGTHS) : end]):
            known = family.ends.get((size, self._tail(items, size)))
            if known is None:
                continue
            hasher = xxhash.xxh3_128(seed)
            self._absorb(hasher, items, 0, size)
            if hasher.digest() == known:
                return size, hasher
            tries += 1
            if tries == _TRIES:
                break
        return 0, None

    def _remember(self, head: bytes, end: tuple[int, bytes], whole: bytes) -> None:
        if self._count >= self._capacity:  # forgetting all at once needs neither an order of use nor a lock
            self._families, self._count = {}, 0
        family = self._families.setdefault(head, _Family())
        at = bisect_right(family.sizes, end[0])
        if not at or family.sizes[at - 1] != end[0]:
            family.sizes.insert(at, end[0])
        self._count += end not in family.ends
        family.ends[end] = whole

    def _absorb(self, hasher: Any, items: list[Any], start: int, end: int) -> None:
        for at in range(start, end, _PIECE):
            hasher.update(self._written(items[at : min(at + _PIECE, end)]))

    def _tail(self, items: list[Any], size: int) -> bytes:
        return self._digest(items[max(0, size - _TAIL) : size])

    def _digest(self, items: list[Any], seed: bytes = b"") -> bytes:
        hasher = xxhash.xxh3_128(seed)
        hasher.update(self._written(items))
        return hasher.digest()


def values_written(values: list[Any]) -> memoryview:
    """Plain nested values as bytes. Raises ValueError for others."""
    return memoryview(marshal.dumps(values, _FORMAT))[_LIST_HEADER:]


def pairs_written(pairs: list[tuple[str, Any]]) -> bytes:
    """Attributes as bytes: mostly text, which is written ten times as fast. Raises ValueError for what is no plain
    value."""
    try:
        text = "\0".join(chain.from_iterable(pairs))
    except TypeError:
        text = ""
    if text.count("\0") == 2 * len(pairs) - 1:
        return text.encode("utf-8", "surrogatepass") + b"\0"
    if len(pairs) == 1:
        return _NO_TEXT + marshal.dumps(pairs[0], _FORMAT)
    return b"".join(pairs_written([pair]) for pair in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A message and the list that it extends. ``name`` names the list up to here by its content; b"" where a message is no
    plain value."""

    before: Link | None
    message: Any
    name: bytes
    length: int


def linked(before: Link | None, message: Any) -> Link:
    """The list ``before`` (None: an empty one) with one message more."""
    seed = before.name if before is not None else b""
    name = b""
    if seed or before is None:
        try:
            hasher = xxhash.xxh3_128(seed)
            hasher.update(values_written([message]))
            name = hasher.digest()
        except ValueError:
            pass
    return Link(before, message, name, before.length + 1 if before is not None else 1)


@dataclass(frozen=True, slots=True)
class Linked:
    """Messages as a reader of a session has them: ``end`` is the last of what later lists may go on with, and ``tail`` what
    follows it in this one only, such as a message that carries a breakpoint for now."""

    end: Link | None
    tail: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return (self.end.length if self.end is not None else 0) + len(self.tail)

    def since(self, known: Callable[[bytes], bool]) -> tuple[Link | None, list[Any]]:
        """The longest list with a ``known`` name that ``end`` goes on with, and the messages from there to ``end``."""
        link, new = self.end, []
        while link is not None and not (link.name and known(link.name)):
            new.append(link.message)
            link = link.before
        return link, new[::-1]

    def every(self) -> list[Any]:
        """All messages."""
        return [*self.since(lambda _: False)[1], *self.tail]


@dataclass(frozen=True, slots=True)
class History:
    """Messages that are spelled by ``pairs``, attributes in the order of the span; ``dialect`` says by whose rules.

    ``read`` makes the messages from a number on out of the pairs that hold them, or None where one of the pairs belongs
    to an earlier message. ``new`` are those after the first ``size`` pairs, which an earlier span had too."""

    dialect: str
    pairs: list[tuple[str, Any]]
    size: int = field(compare=False)
    new: list[Any] = field(compare=False)
    read: Callable[[list[tuple[str, Any]], int], list[Any] | None] = field(compare=False)

    def since(self, size: int, count: int) -> list[Any] | None:
        """The messages after the first ``size`` pairs, which spell ``count``; None where later pairs add to those."""
        return self.new if size == self.size else self.read(self.pairs[size:], count)

    def every(self) -> list[Any]:
        """All messages."""
        return self.since(0, 0) or []
