"""Messages that are spelled by flat attributes (``gen_ai.prompt.0.role``), read at the cost of those that are new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from otel_ctx.dialects.fields import index_of
from otel_ctx.parts import Beginning, Beginnings, History, pairs_written

_REMEMBERED = 16_384
_NOTHING = Beginning(0, b"", b"")

Read = Callable[[list[tuple[str, Any]], int], list[Any] | None]


@dataclass(frozen=True, slots=True)
class Known:
    """What was found out about the messages of an earlier span: how many they were, and what holds of every longer
    history that begins with them too, in the dialect's own words."""

    count: int = 0
    facts: frozenset[str] = frozenset()


_beginnings = Beginnings(_REMEMBERED, pairs_written)
_known: dict[bytes, Known] = {}


class Run:
    """The attributes from the first to the last key below ``prefix``, in the order of the span; ``others``: the rest.

    Where they begin as an earlier span's did, ``known`` says what was found then, and only the ``new`` ones need a
    look. ``dialect`` names who reads them: equal attributes are equal messages to one reader only."""

    def __init__(self, attributes: Mapping[str, Any], prefix: str, dialect: str) -> None:
        pairs = list(attributes.items())
        start, end = 0, len(pairs)
        while start < end and not pairs[start][0].startswith(prefix):
            start += 1
        while end > start and not pairs[end - 1][0].startswith(prefix):
            end -= 1
        self.pairs = pairs[start:end]
        self.others = pairs[:start] + pairs[end:]
        self._prefix, self._dialect = prefix, dialect
        size, digest, self._whole = _beginnings.of(self.pairs, dialect.encode()) if self.pairs else _NOTHING
        self.known = _known.get(digest) or Known()
        self.new = self.pairs[size:] if self.known.count else self.pairs

    def reaches_back(self, keys: Iterable[str]) -> bool:
        """Do new ``keys``, without the prefix, belong to messages that are known already? Then nothing is known."""
        if not reaches_below(self.known.count, keys):
            return False
        self.known, self.new = Known(), self.pairs
        return True

    def learn(self, count: int, facts: frozenset[str]) -> None:
        """Keep how many messages these are, known ones included, and the facts of all of them."""
        if self._whole and all(key.startswith(self._prefix) for key, _ in self.new):
            if len(_known) >= _REMEMBERED:
                _known.clear()
            _known[self._whole] = Known(count, facts)

    def history(self, new: list[Any], read: Read) -> History:
        """The messages, of which ``new`` are those after the known ones; see ``History.read``."""
        return History(self._dialect, self.pairs, len(self.pairs) - len(self.new), new, read)


def reaches_below(count: int, keys: Iterable[str]) -> bool:
    """Is the index at the beginning of one of the ``keys`` below ``count``?"""
    return count > 0 and any(isinstance(i := index_of(key), int) and i < count for key in keys)
