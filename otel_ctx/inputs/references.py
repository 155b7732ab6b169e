"""Items that a request of the Responses API only names: what an earlier answer in the same log said stands in their place.

The model reads them all the same. One of an answer that the log does not have stays a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REFERENCE = "item_reference"
_MOST = 2_000  # items of answers that are kept, the newest


class Answered:
    """The items of the answers so far, by their ids."""

    def __init__(self) -> None:
        self._items: dict[str, Mapping[str, Any]] = {}

    def learn(self, answer: Any) -> None:
        output = answer.get("output") if isinstance(answer, Mapping) else None
        for item in output if isinstance(output, list) else ():
            if isinstance(item, Mapping) and isinstance(item.get("id"), str):
                self._items.pop(item["id"], None)
                self._items[item["id"]] = item
        while len(self._items) > _MOST:
            del self._items[next(iter(self._items))]

    def filled(self, body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """``body`` with what it names in the place of the names; itself where it names nothing that is known."""
        given = body.get("input") if body else None
        if not isinstance(given, list) or not any(map(_is_reference, given)):
            return body
        return {**(body or {}), "input": [self._said(item) for item in given]}

    def _said(self, item: Any) -> Any:
        ident = item.get("id") if _is_reference(item) else None
        return self._items.get(ident, item) if isinstance(ident, str) else item


def _is_reference(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") == REFERENCE
