"""JSON as text: tolerant reading, compact writing, the text of a value that a provider would see as text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

_HIDDEN = r"redacted|masked|filtered|removed|scrubbed|elided|hidden|censored|obfuscated|pii|sensitive"
_JSON = rf"\s*[\"'](?!(?:{_HIDDEN})\b)"  # values that speak of such things; {"redacted": true} is none
_MASK = re.compile(
    rf"_{{2}}redacted_{{2}}|[*█]{{3,}}|[xX]{{4,}}|REDACTED|MASKED"
    rf"|[\[<({{]++(?!{_JSON})[^\[\]<>(){{}}]*\b(?:{_HIDDEN})\b[^\[\]<>(){{}}]*[\]>)}}]+",
    re.IGNORECASE,
)
_LONGEST = 80
_WITHIN = re.compile(
    r"[\[<({*][^\[\]<>(){}\n]{0,40}(?:redacted|masked|scrubbed|removed)[^\[\]<>(){}\n]{0,40}[\]>)}*]", re.I
)
_NAME = r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"
_PLACEHOLDER = re.compile(  # of anonymisers: <PERSON>, <PERSON_0>, [PII_12], [EMAIL_ADDRESS], {{NAME_1}}
    rf"<(?P<tag>{_NAME})>|\[(?=[A-Z0-9]*_){_NAME}\]|\{{\{{ ?{_NAME}_\d+ ?\}}\}}"
)
_HASH = re.compile(  # in place of a whole text; 8 digits are enough where it says what it is
    r"(?:sha-?\d+|md5|blake\w+|hash)[:=][0-9a-f]{8,128}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.I
)
_BEGINNING = 200  # characters in which a summary says that it is one
_AROUND = 60  # characters on each side of a difference in which a mask would stand
_SAID = (
    r"(?:conversation|dialogue|discussion|session|history|chat|so far|said|messages|turns|thinking process)"
)
_SUMMARY = re.compile(  # of what was said; "a summary of the report" is none
    rf"continued from a previous conversation|\bsummary\b[^.]{{0,60}}?\b{_SAID}\b|<(?:conversation_)?summary>"
    rf"|\b(?:{_SAID}|context|previous|earlier)\W{{1,3}}(?:\w+\W){{0,2}}?summary\b",
    re.I,
)
_WANTED = re.compile(
    r"\b(?:write|give|create|provide|generate|make|produce|prepare|need|want)\b[^.\n]*$", re.I
)
_HEADINGS = 8  # places looked at where a summary may begin in a system prompt
_PHRASE = 3  # words
_LINE = 400  # characters in which a heading says what it is
_SAME = 0.8  # texts that have this much in common are one, with a value in it that changes


def is_mask(text: str) -> bool:
    """Is it what instrumentations put where content was hidden? Such is never prompt text."""
    return len(text) <= _LONGEST and _MASK.fullmatch(text.strip()) is not None


def masked_at(before: str, after: str, offset: int) -> bool:
    """Do two texts differ at a mask, so that what stood there is not known? ``offset``: their common beginning.

    One side is enough where the mask says what it is, or a hash is all there is of a text. A placeholder looks like a
    tag or a heading: it must stand at the difference on both sides. A hash within a text is a value like any other."""
    texts = before, after
    if any(len(t) < 200 and _HASH.fullmatch(t.strip()) for t in texts):
        return True
    return any(_says_so(t, offset) for t in texts) or all(_placeholder_at(t, offset) for t in texts)


def _says_so(text: str, offset: int) -> bool:
    around = text[max(0, offset - _AROUND) : offset + _AROUND]
    return any(m.end() >= min(offset, _AROUND) >= m.start() for m in _WITHIN.finditer(around))


def _placeholder_at(text: str, offset: int) -> bool:
    """A tag that is closed somewhere holds text, and is no placeholder."""
    left = max(0, offset - _AROUND)
    for m in _PLACEHOLDER.finditer(text[left : offset + _AROUND]):
        if m.start() <= offset - left < m.end():
            return m["tag"] is None or f"</{m['tag']}>" not in text
    return False


def loads(text: str) -> Any:
    """Parse JSON, by the standard library where orjson refuses (NaN, lone surrogates). Raises ValueError."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def compact(value: Any) -> str:
    """Compact JSON in the order of the keys. Values that JSON does not know are written as strings."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        except (TypeError, ValueError, RecursionError):
            return str(type(value))


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` where it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def structure(value: Any) -> Any:
    """``value``, or what it holds where it is a string of a JSON array or object."""
    if isinstance(value, str):
        head = value.lstrip()[:1]
        if head in ("{", "["):
            try:
                return loads(value)
            except ValueError:
                return value
    return value


def printed(value: Any) -> Any:
    """``structure(value)``, or what the text of a list or dict holds as Python prints it: literals only."""
    value = structure(value)
    return _literal(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def printed_text(value: Any) -> Any:
    """The text that Python has printed with its quotes; any other value as it is."""
    return _literal(value) if isinstance(value, str) and value[:1] in ("'", '"') else value


def _literal(value: str) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def arguments_text(value: Any) -> str:
    """A tool call's arguments as compact JSON, whether they came as an object or as a string of one."""
    if value is None or value == "":
        return "{}"
    if isinstance(value, str):
        parsed = structure(value)
        return value if isinstance(parsed, str) else compact(parsed)
    return compact(value)


def salvage(text: str) -> Any:
    """What can still be read of JSON that was cut at its end: open strings, arrays and objects are closed where the
    text stops, a key without a value is dropped. Raises ValueError where it was not cut but broken."""
    closers: list[str] = []
    in_string = escaped = False
    safe = 0  # the last position at which the text could stop; what is open there is what is open at the end
    for i, c in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == '"':
                in_string = False
            continue
        if c == '"':
            in_string = True
        elif c in "{[":
            closers.append("}" if c == "{" else "]")
            safe = i + 1
        elif c in "}]":
            if not closers or closers.pop() != c:
                raise ValueError("not JSON that was cut")
            safe = i + 1
        elif c == ",":
            safe = i
    if not closers:
        raise ValueError("not JSON that was cut")
    tail = "".join(reversed(closers))
    if in_string:
        cut = _drop_open_escape(text)
        try:
            return loads(cut + '"' + tail)  # a value that was cut keeps its beginning
        except ValueError:
            pass
    else:
        try:
            return loads(text + tail)
        except ValueError:
            pass
    return loads(text[:safe] + tail)


def _drop_open_escape(text: str) -> str:
    """Take an escape sequence off the end that the cut went through."""
    at = _open_escape(text)
    if at is not None and len(text) - at < (6 if text[at + 1 : at + 2] == "u" else 2):
        text = text[:at]
        at = _open_escape(text)
    if at is not None and _HIGH_SURROGATE.fullmatch(text, at):
        return text[:at]
    return text


_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")  # the first half of a character


def _open_escape(text: str) -> int | None:
    """Where the last escape sequence begins, if it begins within the last six characters."""
    at = text.rfind("\\", max(0, len(text) - 6))
    if at < 0:
        return None
    run = at + 1 - len(text[: at + 1].rstrip("\\"))
    return at if run % 2 else None


def unpack(value: Any) -> tuple[Any, bool]:
    """What a JSON string of an array or object holds, and whether it was cut at its end: then what is left of it.
    Any other value, and text of which nothing can be read as JSON, as it is."""
    held = structure(value)
    if not isinstance(held, str) or held.lstrip()[:1] not in ("{", "["):
        return held, False
    try:
        return salvage(held), True
    except (ValueError, RecursionError):
        return held, False


def common_prefix(a: str, b: str) -> int:
    """Length of the common beginning, by halving: a few comparisons of slices, not a loop over characters."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(a: str, b: str) -> int:
    """Length of the common end, likewise: turned round, long texts would be copied letter by letter."""
    m, n = len(a), len(b)
    low, high = 0, min(m, n)
    if a[m - high :] == b[n - high :]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[m - middle : m - low] == b[n - middle : n - low]:
            low = middle
        else:
            high = middle
    return low


def says_summary(text: str | None) -> bool:
    """Does a message say of itself that it is a summary of what was said before?"""
    beginning = (text or "")[:_BEGINNING].lower()
    return "summary" in beginning or "continued from a previous conversation" in beginning


def is_summary(text: str | None) -> bool:
    """Does a text begin as a summary of what was said? Stricter than ``says_summary``: none of something else, and none
    that is asked for."""
    return next(_summaries((text or "")[:_BEGINNING]), None) is not None


def adds_summary(before: str, after: str, until: int | None = None) -> int | None:
    """Where in ``after`` a summary of what was said begins, with which a system prompt goes on that was ``before``, with
    another summary or none; None where it does not. ``until``: where it begins at most, but for white space."""
    if before == after:
        return None
    last = len(after) if until is None else len(after) - len(after[until:].lstrip())
    found = [at for at in _summaries(after[: last + _LINE]) if at <= last]
    starts = list(_summaries(before[: round(last / _SAME) + _LINE])) if found else []
    for at in found:
        for end in (len(before), *starts):
            old, new = before[:end].rstrip(), after[:at].rstrip()
            if in_common(old, new) >= _SAME * max(len(old), len(new)) and before[end:] != after[at:]:
                return at
    return None


def _summaries(text: str) -> Iterator[int]:
    """Where summaries begin: with the line that says so."""
    for m in islice(_SUMMARY.finditer(text), _HEADINGS):
        begin = text.rfind("\n", 0, m.start()) + 1
        if not _WANTED.search(text, max(begin, m.start() - _AROUND), m.start()):
            yield begin


def in_common(a: str, b: str) -> int:
    """Characters that two texts have in common at their beginnings and ends."""
    head = common_prefix(a, b)
    return head + common_suffix(a[head:], b[head:])


def phrases_in_common(a: str, b: str) -> tuple[int, int]:
    """Phrases that two texts have in common, wherever they stand, and of how many at most."""
    x, y = _phrases(a), _phrases(b)
    return len(x & y), min(len(x), len(y))


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    words = text.split()
    return frozenset(zip(*(words[n:] for n in range(_PHRASE)), strict=False))
