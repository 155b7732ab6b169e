"""For who writes down what is known: in the place of what is no name, a digest, before anything is remembered of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from otel_ctx.model import Part, Telling
from otel_ctx.names import digest_of, is_identifier, is_name, is_word

_NAMES = ("scope", "scope_version", "service", "agent", "operation", "provider", "platform", "request_model",
          "response_model")  # fmt: skip
_IDS = ("response_id", "previous_response_id", "conversation_hint", "request_id", "thread")


def telling_of_names(telling: Telling) -> Telling:
    """``telling`` where names and ids are such, or digests: the same for the same, so that calls are found to belong
    together as before."""
    changed: dict[str, Any] = {
        name: held for name in _NAMES if (held := _name(was := getattr(telling, name))) is not was
    }
    changed |= {name: held for name in _IDS if (held := _id(was := getattr(telling, name))) is not was}
    if telling.names:
        changed["names"] = tuple((section, _id(name)) for section, name in telling.names)
    if telling.ids:
        changed["ids"] = tuple((_id(name), _id(value)) for name, value in telling.ids)
    return telling._replace(**changed) if changed else telling


def part_of_names(part: Part) -> tuple[str, str, str]:
    """Role, name and id of the tool call."""
    return _word(part.role), _word(part.name), _id(part.call_id)


def _held(is_such: Callable[[str], bool]) -> Callable[[str], str]:
    @lru_cache(4096)
    def held(value: str) -> str:
        return value if not value or is_such(value) else digest_of(value, 8)

    return held


_name = _held(is_name)
_word = _held(is_word)
_id = _held(lambda value: is_word(value) or is_identifier(value))
