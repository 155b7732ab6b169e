"""What every dialect reads the same way: plain values out of attributes, and who, where and when of a record."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from otel_ctx.model import LogRecord, Span, Telling


def text(attributes: Mapping[str, Any], *keys: str) -> str:
    """The first of ``keys`` that holds a non-empty value, as text; "" where none does."""
    for value in map(attributes.get, keys):
        if value or (value is not None and value != ""):
            return str(value)
    return ""


def amount(attributes: Mapping[str, Any], key: str) -> float | None:
    """A number of any kind, or the text of one; None where it is none, or not finite."""
    value = attributes.get(key)
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def flag(attributes: Mapping[str, Any], key: str) -> bool:
    """Is it true, as a truth value or, out of a format that has none, as its text?"""
    return str(attributes.get(key)).lower() == "true"


_LARGEST = 2**63 - 1  # OTLP's integers; more than that is no count of anything


def number(attributes: Mapping[str, Any], *keys: str) -> int | None:
    """The first of ``keys`` that holds a whole number (or the text of one); None where none does."""
    for value in map(attributes.get, keys):
        if value is None or isinstance(value, bool):
            continue
        if type(value) is int and -_LARGEST <= value <= _LARGEST:
            return value
        try:
            found = int(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if abs(found) <= _LARGEST and (found == value or not isinstance(value, float)):
            return found
    return None


def milliseconds(attributes: Mapping[str, Any], key: str) -> int:
    """A duration in ns; 0 where none is told."""
    told = (amount(attributes, key) or 0) * 1_000_000
    return int(told) if abs(told) <= _LARGEST else 0


def first(attributes: Mapping[str, Any], *keys: str) -> Any:
    """The first of ``keys`` whose value is neither missing nor empty."""
    for value in map(attributes.get, keys):
        if value or (value is not None and value not in ("", [], ())):
            return value
    return None


class Names:
    """Under which names each of several things is told, the surest first, and which of these a record has: that is found once
    for all whose names are the same."""

    def __init__(self, told: Mapping[str, tuple[str, ...]]) -> None:
        self._told = told
        self._all = frozenset(chain.from_iterable(told.values()))
        self._of = lru_cache(maxsize=1024)(self._among)

    def of(self, attributes: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
        """The names that ``attributes`` have, by what they tell; what they tell nothing of is left out."""
        return self._of(self._all.intersection(attributes))

    def _among(self, names: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
        found = {what: tuple(name for name in known if name in names) for what, known in self._told.items()}
        return {what: here for what, here in found.items() if here}


def service(resource: Mapping[str, Any]) -> str:
    return text(resource, "service.name")


# an SDK whose instrumentations have no scopes: its own name and version stand for theirs
_SCOPELESS = "datadog"

Role = Literal["call", "aggregate", "content", "piece"]
Outcome = Literal["ok", "error", "cancelled"]

_CANCELLED = frozenset({"CancelledError", "GeneratorExit", "AbortError", "APIUserAbortError"})
_TOO_LONG = re.compile(
    r"context[ _]length|context[ _]window|maximum context|(?:prompt|input) is too long|too many (?:input )?tokens"
    r"|exceed\w*[^.]{0,60}(?:context|token)",
    re.IGNORECASE,
)


def failure(span: Span) -> tuple[Outcome, str]:
    """("error" or "cancelled", its type or message) of a span that failed, else ("ok", "").

    A window that was exceeded is ``context_length_exceeded`` whatever the library calls it: such a message may quote
    the prompt, so none of it is kept."""
    kind = text(span.attributes, "error.type")
    if span.status_code != 2 and not kind:
        return "ok", ""
    said = [kind, span.status_message]
    for event in span.events:
        if event.name == "exception":
            kind = kind or text(event.attributes, "exception.type")
            said.append(text(event.attributes, "exception.message"))
    return refusal(kind, said)


def refusal(kind: str, said: Sequence[str]) -> tuple[Outcome, str]:
    """The same of a request that failed: ``kind`` is the type of its error, ``said`` all words about it."""
    if kind.rpartition(".")[2] in _CANCELLED:
        return "cancelled", kind
    if any(_TOO_LONG.search(words) for words in said):
        return "error", "context_length_exceeded"
    return "error", kind or next(filter(None, said), "error")


def of_span(span: Span, dialect: str, role: Role, **more: Any) -> Telling:
    """What every reader takes from the span itself: ids, times, scope, service, outcome; and ``more``."""
    status, error = failure(span)
    scope, version = span.scope_name, span.scope_version
    if not scope and span.resource.get("telemetry.sdk.name") == _SCOPELESS:
        scope, version = _SCOPELESS, text(span.resource, "telemetry.sdk.version")
    return Telling(
        dialect=dialect,
        role=role,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start_unix_nano=span.start_unix_nano,
        end_unix_nano=span.end_unix_nano,
        scope=scope,
        scope_version=version,
        service=service(span.resource),
        status=status,
        error=error,
        where=span.where,
        **more,
    )


def of_record(record: LogRecord, dialect: str, role: Role = "content", **more: Any) -> Telling:
    """What every reader takes from a log record itself: ids, its time, scope, service; and ``more``."""
    known: dict[str, Any] = {
        "trace_id": record.trace_id,
        "span_id": record.span_id,
        "start_unix_nano": record.time_unix_nano,
        "end_unix_nano": record.time_unix_nano,
        "order": record.time_unix_nano,
    }
    return Telling(
        dialect=dialect,
        role=role,
        scope=record.scope_name,
        scope_version=record.scope_version,
        service=service(record.resource),
        where=record.where,
        **{**known, **more},
    )


def unflatten(attributes: Mapping[str, Any], prefix: str) -> Any:
    """The nested value that flat keys below ``prefix`` spell: ``p.0.message.role`` -> ``{0: {"message": {…}}}``.

    Keys that are numbers stay ints in dicts, so that a hole in an index stays visible."""
    root: dict[Any, Any] = {}
    size = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            _put(root, key[size:], value)
    return root


def _put(node: dict[Any, Any], key: str, value: Any) -> None:
    """Write ``value`` into nested dicts. A dict that is there is never overwritten, a value is by a dict."""
    steps, last = _path(key)
    for name in steps:
        child = node.get(name)
        if not isinstance(child, dict):
            child = node[name] = {}
        node = child
    if not isinstance(node.get(last), dict):
        node[last] = value


@lru_cache(maxsize=4096)
def _path(key: str) -> tuple[tuple[Any, ...], Any]:
    """The steps that lead to a value, and its own name."""
    *steps, last = map(_step, key.split("."))
    return tuple(steps), last


def _step(step: str) -> Any:
    return int(step) if step.isdecimal() and len(step) < 7 else step


_LEADING = ("type", "role", "name", "description")  # how requests mostly begin a definition or a message


def in_order(node: Mapping[Any, Any]) -> dict[Any, Any]:
    """``node`` with its keys in an order that does not hang on that of the attributes which spelled them: attributes have
    none, and a collector may well sort them."""
    if len(node) < 2:
        return dict(node)
    return {k: node[k] for k in sorted(node, key=_place)}


@lru_cache(maxsize=4096)
def _place(key: Any) -> tuple[int, str]:
    return leading(key), str(key)


def leading(key: Any) -> int:
    """Attributes have no order; a definition's keys stand as requests mostly have them."""
    return _LEADING.index(key) if key in _LEADING else len(_LEADING)


def listed(node: Any) -> list[Any]:
    """The values of an ``unflatten``ed index, in order of their numbers."""
    if isinstance(node, Mapping):
        return [node[k] for k in sorted(k for k in node if isinstance(k, int))]
    return list(node) if isinstance(node, (list, tuple)) else []


def indexed(flat: Mapping[str, Any]) -> tuple[list[Any], int, bool]:
    """What keys that begin with an index spell (``3.content``, ``3.tool_calls.0.name``), nested, index by index.

    -> the items (None where an index is missing), the first index that is there, and whether that first item has lost
    its ``role`` while others have one, as an attribute limit that drops the oldest does it. A role that the item's
    keys or its neighbour give away is put back."""
    items = indexed_from(flat, 0)
    first = next((i for i, item in enumerate(items) if item is not None), 0)
    if not items or "role" in items[first]:
        return items, first, False
    headless = any("role" in item for item in items if item is not None)
    if headless:
        items[first] = _mended(items[first], (items[first + 1] if first + 1 < len(items) else None) or {})
    return items, first, headless


def indexed_from(flat: Mapping[str, Any], start: int) -> list[Any]:
    """The items from index ``start`` on, None where one is missing."""
    found: dict[Any, Any] = {}
    nodes: dict[str, dict[Any, Any]] = {}
    deep = set()
    for key, value in flat.items():  # thousands of keys a call: no function call for most of them
        number, dot, rest = key.partition(".")
        if not dot:
            continue
        node = nodes.get(number)
        if node is None:
            node = nodes[number] = found.setdefault(_step(number), {})
        steps, last = _path(rest)
        if steps or isinstance(last, int):
            deep.add(_step(number))
            _put(node, rest, value)
        elif not isinstance(node.get(last), dict):
            node[last] = value
    for index in deep:
        found[index] = _lists(found[index])
    end = max((k for k in found if isinstance(k, int)), default=-1) + 1
    return [found.get(k) for k in range(start, end)]


def index_of(key: str) -> Any:
    """The number that ``key`` begins with, where a dot follows; else text."""
    number, dot, _ = key.partition(".")
    return _step(number) if dot else number


def _mended(message: dict[str, Any], following: Mapping[str, Any]) -> dict[str, Any]:
    """A message that has lost its first keys: with the role that it must have had, without calls of no name."""
    message = dict(message)
    if message.get("tool_calls"):
        role = "assistant"
    elif message.get("tool_call_id"):
        role = "tool"
    else:
        role = {"assistant": "user", "tool": "assistant", "user": "assistant"}.get(
            str(following.get("role")), ""
        )
    if role:
        message["role"] = role
    for key in ("tool_calls", "contents"):
        if isinstance(message.get(key), list):
            message[key] = [v for v in message[key] if _has_name(v)]
    return message


def _has_name(item: Any) -> bool:
    """False for a tool call of which only arguments or ids are left."""
    if not isinstance(item, Mapping):
        return True
    if "message_content" in item and "tool_call" not in item:
        return True
    call = item.get("tool_call", item)
    function = call.get("function", call) if isinstance(call, Mapping) else {}
    return not isinstance(function, Mapping) or "name" in function


def _lists(node: dict[Any, Any]) -> Any:
    """``node`` with lists in place of dicts whose keys are all numbers."""
    for key, value in node.items():
        if isinstance(value, dict):
            node[key] = _lists(value)
    if node and all(isinstance(k, int) for k in node):
        return [node[k] for k in sorted(node)]
    return in_order(node)
