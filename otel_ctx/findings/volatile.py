"""Values that change by themselves: times, dates, ids, counters. Do two texts differ in nothing but such values?

A helper of the checks. It looks at the places that differ and a little around them, never at the rest of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from otel_ctx.parts.texts import common_prefix

_CONTEXT = 64  # characters of common text in front of a difference that may belong to the value
_LONGEST = 160  # characters of a value
_MOST = 64  # values: more is a table that changed
_SHOWN = 24  # characters of context in an excerpt
_SHOWN_VALUE = 120

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)(?![A-Za-z])\.?"
)
_WEEKDAY = (
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day(?![A-Za-z])"
    r"|(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)(?![A-Za-z])\.?"
)
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![A-Za-z0-9]))?"
_ISO = (
    r"(?:\d{4}-\d{2}-\d{2}|\d{4}/\d{2}/\d{2})"
    rf"(?:[T ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?{_ZONE})?|\d{{8}}T\d{{4,6}}(?:\.\d+)?Z?"
)
_DAY = (
    rf"{_WEEKDAY}|(?:\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?)?{_MONTH}"
    r"(?: \d{1,2}(?:st|nd|rd|th)?(?![A-Za-z0-9:]))?(?:,? \d{4}(?!\d))?"
    r"|\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})(?!\d)|\d{1,2}\.\d{1,2}\.\d{4}(?!\d)"
)
_AM_PM = r"(?: ?(?:[AaPp][Mm](?![A-Za-z])|[ap]\.m\.))"
_CLOCK = rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?{_AM_PM}?{_ZONE}|\d{{1,2}}{_AM_PM}"
_MIXED = r"(?=[A-Za-z0-9_-]*[0-9])(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+)*"
_NUMBER = r"(?<![A-Za-z0-9]\.)\d+(?:[.,]\d+)*"  # the end of "v1.2.3" is none

_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    rf"(?P<iso>(?:{_ISO})(?![A-Za-z0-9]))|(?P<day>{_DAY})|(?P<clock>(?:{_CLOCK})(?![A-Za-z0-9]))"
    rf"|(?P<mixed>{_MIXED})|(?P<number>{_NUMBER}))"
)
_MOMENT = re.compile(rf"(?<![A-Za-z0-9])(?:{_ISO})(?![A-Za-z0-9])")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_HASH = re.compile(r"[0-9a-f]{7,128}|[0-9A-F]{7,128}")
_EPOCH = re.compile(r"1\d{9}(?:\d{3}){0,3}")  # seconds, milli-, micro- or nanoseconds since 1970
_WITH_UNIT = re.compile(r"(\d+)([A-Za-z]{1,3})")
_PRICED_BEFORE = re.compile(r"(?:[$€£¥₹]|\b(?:USD|EUR|GBP|CHF|JPY|INR|Rs\.?))\s?$")
_PRICED_AFTER = re.compile(r"\s?(?:[$€£¥₹%]|(?:USD|EUR|GBP|CHF|JPY|INR|euros?|dollars?|cents?|percent)\b)")
_ESCAPE = re.compile(r"\\[nrt]")  # in the JSON of a tool's definition

_COUNTER, _PLAIN = "a counter", "a number"
_WEAK = (_COUNTER, _PLAIN)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part. ``start`` counts characters in the earlier one; ``before`` and ``after`` are the first
    value that differs, whole; ``what`` names its class ("a clock time"): "" where the texts differ in more than
    values that change by themselves."""

    start: int
    before: str
    after: str
    what: str


def recognise(before: str, after: str, start: int) -> Difference:
    """What differs between the two texts, whose common beginning is ``start`` characters long."""
    changed: list[tuple[re.Match[str], re.Match[str]]] = []
    classes: list[str] = []
    i = j = start
    done_i = done_j = first = 0
    while i < len(before) or j < len(after):
        old, new = _value_at(before, i, done_i), _value_at(after, j, done_j)
        if old is None or new is None or len(changed) == _MOST:
            return _grown(before, after, start)
        (m, begin_i), (n, begin_j) = old, new
        what = _class_of(m, n) if i - begin_i == j - begin_j and m.group() != n.group() else ""
        if not what:
            return _grown(before, after, start)
        first = first if changed else begin_i
        changed.append((m, n))
        classes.append(what)
        done_i, done_j = begin_i + len(m.group()), begin_j + len(n.group())
        same = common_prefix(before[done_i:], after[done_j:])
        i, j = done_i + same, done_j + same
    if not changed or not _numbers_count(changed, classes):
        return _grown(before, after, start)
    more = len(changed) - 1
    what = classes[0] + (f" and {more} more such value{'s' if more > 1 else ''}" if more else "")
    return Difference(first, changed[0][0].group(), changed[0][1].group(), what)


def excerpt(before: str, after: str, found: Difference) -> str:
    """The characters themselves with a little around them: earlier → later."""
    return " → ".join(
        _shown(text, found.start, value) for text, value in ((before, found.before), (after, found.after))
    )


def _shown(text: str, start: int, value: str) -> str:
    left, end = max(start - _SHOWN, 0), start + len(value)
    if len(value) > _SHOWN_VALUE:
        value = value[:_SHOWN_VALUE] + "…"
    return (
        f"{'…' if left else ''}{text[left:start]}{value}{text[end : end + _SHOWN]}"
        f"{'…' if end + _SHOWN < len(text) else ''}"
    )


# ---- where the texts part


def _value_at(text: str, at: int, done: int) -> tuple[re.Match[str], int] | None:
    """The value that character ``at`` is part of or stands right behind, and where it begins; not before ``done``."""
    left = max(done, at - _CONTEXT)
    window = _ESCAPE.sub("  ", text[left : at + _LONGEST])
    for m in _VALUE.finditer(window):
        if m.end() >= at - left:
            return (m, left + m.start()) if m.start() <= at - left else None
    return None


def _grown(before: str, after: str, start: int) -> Difference:
    """The stretch that differs, grown to the ends of the words it cuts through."""
    tail = common_prefix(before[start:][::-1], after[start:][::-1])
    left = start
    while left > 0 and start - left < _CONTEXT and before[left - 1].isalnum():
        left -= 1
    right = 0
    while right < min(tail, _CONTEXT) and before[len(before) - tail + right].isalnum():
        right += 1
    rest = tail - right
    return Difference(left, before[left : len(before) - rest], after[left : len(after) - rest], "")


# ---- which class a pair of values is of


def _class_of(old: re.Match[str], new: re.Match[str]) -> str:
    groups = {old.lastgroup, new.lastgroup}
    if groups == {"iso"}:
        return "a date and time" if ":" in old.group() or "T" in old.group() else "a date"
    if groups == {"day"}:
        return "a date"
    if groups == {"clock"}:
        return "a clock time"
    if groups <= {"mixed", "number"}:
        return _token_class(old.group(), new.group())
    return ""


def _token_class(a: str, b: str) -> str:
    for pattern, what in ((_UUID, "a UUID"), (_MOMENT, "a date and time")):
        if pattern.sub("\0", a) == pattern.sub("\0", b):
            return what
    if _ULID.fullmatch(a) and _ULID.fullmatch(b):
        return "a random id"
    if _EPOCH.fullmatch(a) and _EPOCH.fullmatch(b) and len(a) == len(b):
        return "a Unix time"
    if a[0].isdigit() and b[0].isdigit() and _value(a) is not None and _value(b) is not None:
        return _number_class(a, b)
    if _HASH.fullmatch(a) and _HASH.fullmatch(b):
        return "a hash"
    if _random(a) and _random(b) and (_switches(a) >= 4 <= _switches(b) or _alike(a, b) <= 0.5):
        return "a random id"
    x, y = _WITH_UNIT.fullmatch(a), _WITH_UNIT.fullmatch(b)
    if x and y and x[2] == y[2]:
        return _number_class(x[1], y[1])
    return _compound_class(re.split("[_-]+", a), re.split("[_-]+", b))


def _compound_class(a: Sequence[str], b: Sequence[str]) -> str:
    """``req_8f3k2m1q``, ``job-18231-a``: what differs must be of a class, part by part. Short numbers are none here:
    names of models and products end in them."""
    if len(a) != len(b) or len(a) == 1:
        return ""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if any(not x or not y or (x.isdigit() and y.isdigit() and min(len(x), len(y)) < 3) for x, y in pairs):
        return ""
    classes = [_token_class(x, y) for x, y in pairs]
    return next((c for c in classes if c not in _WEAK), classes[0]) if all(classes) else ""


def _value(text: str) -> float | None:
    """A plain number; None for versions, addresses and dates, which have more dots than one."""
    digits = text.replace(",", "")
    return (
        float(digits)
        if digits.isascii() and digits.replace(".", "", 1).isdigit() and len(digits) < 20
        else None
    )


def _number_class(a: str, b: str) -> str:
    if re.search(r"\.\d\d$", a) or re.search(r"\.\d\d$", b):
        return ""  # a price, as likely as not
    x, y = _value(a), _value(b)
    if x is None or y is None:
        return ""
    return _COUNTER if abs(x - y) == 1 else _PLAIN


def _numbers_count(changed: list[tuple[re.Match[str], re.Match[str]]], classes: list[str]) -> bool:
    """Do plain numbers change as counters and readings do? Several at once that do not count are a changed table."""
    weak = [(m, n, c) for (m, n), c in zip(changed, classes, strict=True) if c in _WEAK]
    if len(weak) > 1 and any(c != _COUNTER for _, _, c in weak):
        return False
    return not any(_priced(m) or _priced(n) for m, n, _ in weak)


def _priced(m: re.Match[str]) -> bool:
    before = m.string[max(0, m.start() - 6) : m.start()]
    return bool(_PRICED_BEFORE.search(before) or _PRICED_AFTER.match(m.string, m.end()))


def _random(text: str) -> bool:
    """Letters and digits mixed as no word or product name mixes them."""
    if len(text) < 8 or not text.isalnum():
        return False
    switches = _switches(text)
    return switches >= 4 or (switches >= 2 and re.search(r"[a-z]{5}|[A-Z]{5}", text) is None)


def _switches(text: str) -> int:
    return sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))


def _alike(a: str, b: str) -> float:
    return sum(x == y for x, y in zip(a, b, strict=False)) / max(len(a), len(b))
