"""Raw values of a telling -> segments, at the cost of what is new in them.

Frameworks send the whole history with every call. Memos keep that from being paid for again, all of them by digest and
exact: messages that extend an earlier list are read from where they go on, be they a JSON string, nested values or flat
attributes; a message that stands at its old place after one that changed is not read again; tools and system prompts
are known as a whole; and a segment's tokens are counted once per distinct text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from sys import intern
from typing import Any

import xxhash

from otel_ctx.engine.discreet import part_of_names
from otel_ctx.engine.texts import Texts
from otel_ctx.frozen import frozen
from otel_ctx.memo import Memo
from otel_ctx.model import EMPTY_CHAIN as EMPTY
from otel_ctx.model import NO_SECTION, Chain, Method, Part, Raw, Reason, Section, Segment, Unseen, grown
from otel_ctx.parts import (
    Beginnings,
    History,
    Linked,
    is_batch,
    is_cut,
    is_mask,
    is_reference,
    loads,
    messages_of,
    pairs_written,
    read_message,
    read_messages,
    read_system,
    read_tools,
    salvage,
    values_written,
)

Count = Callable[[str, str], tuple[int, Method]]
"""(text, encoding) -> (tokens, how sure)."""

_MEDIA = ("image", "file")
_NAMED = ("tools", "tool_call", "thinking")  # whose name is a part of what they are
_LIKE_JSON = re.compile(r'\s*(\[\s*[\[{"\]]|\{\s*["}])')
_MESSAGE = re.compile(r"^messages\[(\d+)\]")
_TAIL = 48  # characters before the end of a known prefix that are compared before its digest is
_HEAD = 64
_PIECE = 1 << 16
_FEW = 4  # messages are sooner read than looked for
_RECENT = 64  # known prefixes looked at per head
_OF_TEXT = 1  # seed of a text's digest, so that it is that of no other value
_THREADS = 16_384
_FACTS = 131_072

_Fact = tuple[int | None, Method]  # a text's tokens, and how sure that is
_NOT_MEASURED: _Fact = (None, "unmeasured")


@frozen(frozen=True, slots=True)
class _Known:
    """A messages string without its closing bracket, by digest, and the chain it was read into."""

    length: int
    tail: int  # hash of the characters before the end
    digest: bytes
    chain: Chain


class Assembler:
    """Turns Raw values into segments. ``count`` counts a text's tokens; ``texts`` keeps the texts."""

    def __init__(self, count: Count, texts: Texts, discreet: bool = False) -> None:
        self._discreet = discreet
        self._count = count
        self._texts = texts
        self._sections: Memo[tuple[str, str, bytes], Section] = Memo(1024)
        # by encoding, and 60 bits of the digest
        self._facts: dict[str, Memo[int, _Fact]] = defaultdict(partial(Memo, _FACTS))
        self._threads: Memo[int, _Known] = Memo(_THREADS)  # by 60 bits of encoding and thread
        self._heads: Memo[tuple[str, str], list[_Known]] = Memo(1024)
        self._chains: Memo[bytes, Chain] = Memo(4096)
        self._lists = Beginnings(4096, values_written)
        self._runs = Beginnings(4096, pairs_written)
        self._messages: Memo[tuple[bytes, int, str], tuple[Segment, ...]] = Memo(8192)

    def section(self, raw: Raw | None, encoding: str) -> tuple[Section, set[Reason]]:
        """The segments of tools or of a system prompt, and what was found damaged."""
        if raw is None:
            return NO_SECTION, set()
        shape, value = raw
        if isinstance(value, Unseen):
            return Section([_unseen(shape, value.digest)]), set()
        key = _digest_of(value)
        if key is not None:
            known = self._sections.get((shape, encoding, key))
            if known is not None:
                if self._texts.forgets:
                    for segment in known:
                        self._texts.touch(segment.digest)
                return known, set()
        opened, reasons = _opened(value)
        # A system prompt may be JSON of its own: whether it holds blocks is seen there.
        parts = read_tools(opened) if shape == "tools" else read_system(opened if reasons else value)
        segments = Section(self._segments(parts, encoding))
        if len(segments) < len(parts):
            reasons = reasons | {"redacted"}
        if shape == "tools" and any(is_cut(p) for p in parts if not is_mask(p.text)):
            reasons = reasons | {"value_cut"}
        if key is not None and not reasons:
            self._sections.put((shape, encoding, key), segments)
        return segments, reasons

    def answer(self, raw: Raw | None, encoding: str) -> tuple[Segment, ...]:
        """The segments of the model's answer. Damage there is no damage to the prompt."""
        if raw is None:
            return ()
        value, _ = _opened(raw.value)
        parts, _ = read_messages(value)
        return self._segments(parts, encoding)

    def chain(self, raw: Raw | None, encoding: str, thread: str) -> tuple[Chain, set[Reason]]:
        """The segments of a list of messages. ``thread`` (a conversation id, else a trace id) is only a hint where to
        look for the string that this one extends."""
        if raw is None:
            return EMPTY, set()
        text = raw.value
        if not isinstance(text, str):
            return self._nested(text, encoding)
        if text[:1] != "[" or text[-1:] != "]":
            return self._whole(text, encoding)
        number = hash((encoding, thread)) >> 4  # whose string it is only says where to look
        known, hasher = self._find(text, encoding, number)
        if known is not None and len(text) == known.length + 1:
            return known.chain, set()
        base, start = (known.chain, known.length) if known is not None else (EMPTY, 0)
        try:
            value = loads("[" + text[start + 1 :])
        except ValueError:
            return self._whole(text, encoding)
        if not value and start:  # nothing after a comma
            return self._whole(text, encoding)
        chain, missing = self._extended(base, value, encoding)
        if missing:
            return chain, missing
        if value and (start or not is_batch(value)):
            self._remember(text, start, hasher, chain, encoding, number)
        return chain, set()

    def _nested(self, value: Any, encoding: str) -> tuple[Chain, set[Reason]]:
        """Messages that are attributes or nested values: what came before is known by its digest."""
        if isinstance(value, Linked):
            return self._linked(value, encoding)
        if isinstance(value, History):
            size, digest, whole = self._runs.of(value.pairs, f"{encoding} {value.dialect}".encode())
        else:
            messages = value[0] if is_batch(value) else value
            if not isinstance(messages, list) or is_batch(messages):
                return self._whole(value, encoding)
            size, digest, whole = self._lists.of(messages, encoding.encode())
        base = self._chains.get(digest) if size else None
        if base is not None and digest == whole:
            return base, set()
        if base is None:
            size, base = 0, EMPTY
        new = value.since(size, base.messages) if isinstance(value, History) else messages[size:]
        if new is None:
            base, new = EMPTY, value.every()
        chain, missing = self._extended(base, new, encoding)
        if missing:
            return chain, missing
        if whole:
            self._chains.put(whole, chain)
        return chain, set()

    def _linked(self, value: Linked, encoding: str) -> tuple[Chain, set[Reason]]:
        """Messages that go on with a list that was read before: its name is known."""
        seed = encoding.encode()
        known, new = value.since(lambda name: seed + name in self._chains)
        base = self._chains.get(seed + known.name) if known is not None else None
        if base is not None and not new:
            chain, missing = base, set[Reason]()
        else:
            chain, missing = self._extended(EMPTY if base is None else base, new, encoding)
        if not missing and value.end is not None and value.end.name:
            self._chains.put(seed + value.end.name, chain)
        if value.tail:
            chain, more = self._extended(chain, list(value.tail), encoding)
            missing |= more
        return chain, missing

    def _whole(self, value: Any, encoding: str) -> tuple[Chain, set[Reason]]:
        value, reasons = _opened(value)
        chain, missing = self._extended(EMPTY, value, encoding)
        return chain, reasons | missing

    def _extended(self, base: Chain, value: Any, encoding: str) -> tuple[Chain, set[Reason]]:
        """``base`` and then the messages of ``value``, and why some are not here: masks, which are left out, and items that
        only name what the provider keeps."""
        segments: list[Segment] = []
        missing: set[Reason] = set()
        messages = messages_of(value, base.messages)
        read = self._message if len(messages) > _FEW else self._new_message
        for index, message in enumerate(messages, base.messages):
            found, why = read(message, index, encoding)
            segments += found
            if why:
                missing.add(why)
        return grown(base, segments, base.messages + len(messages)), missing

    def _message(self, message: Any, index: int, encoding: str) -> tuple[tuple[Segment, ...], Reason | None]:
        """A message's segments and why some are missing; it may have stood at ``index`` before."""
        digest = _digest_of(message)
        if digest is None:
            return self._new_message(message, index, encoding)
        key = (digest, index, encoding)
        known = self._messages.get(key)
        if known is not None:
            return known, None
        segments, why = self._new_message(message, index, encoding)
        if not why:
            self._messages.put(key, segments)
        return segments, why

    def _new_message(
        self, message: Any, index: int, encoding: str
    ) -> tuple[tuple[Segment, ...], Reason | None]:
        parts = read_message(message, index)
        if not parts and is_reference(message):
            return (), "server_side"
        segments = self._segments(parts, encoding)
        return segments, "redacted" if len(segments) < len(parts) else None

    def append(self, base: Chain, other: Chain) -> Chain:
        """``base`` and then the segments of ``other``, their paths counted on from ``base``."""
        moved = [replace(s, path=_MESSAGE.sub(_counted_on(base.messages), s.path)) for s in other]
        return grown(base, moved, base.messages + other.messages)

    def _segments(self, parts: list[Part], encoding: str) -> tuple[Segment, ...]:
        """Without the texts that an instrumentation put where content was hidden."""
        return tuple([self.segment(p, encoding) for p in parts if not is_mask(p.text)])

    def segment(self, part: Part, encoding: str) -> Segment:
        kind, role, name, path, text, marker, call_id, size = part
        data = text.encode("utf-8", "surrogatepass")
        head = _head_of(kind, name if kind in _NAMED else "")
        digest = blake2b(head + data, digest_size=16).hexdigest()
        if kind in _MEDIA:
            length, (tokens, method) = max(size, 0), _NOT_MEASURED
        else:
            length, (tokens, method) = len(data), self._measure(kind, name, text, digest, encoding)
        self._texts.put(digest, text)
        if self._discreet:  # the digest is of what was there
            role, name, call_id = part_of_names(part)
        # Roles, names and places are few and come again and again; parsed from JSON, each is a string of its own.
        return Segment(
            kind, intern(role), intern(name), intern(path), length, tokens, method, digest, marker, call_id
        )

    def _measure(self, kind: str, name: str, text: str, digest: str, encoding: str) -> _Fact:
        if not text and kind == "thinking":
            return _NOT_MEASURED
        facts = self._facts[encoding]
        key = int(digest[:15], 16)  # a third of what the digest takes
        known = facts.get(key)
        if known is None:
            known = _fact(*self._count(f"{name}{text}" if kind == "tool_call" else text, encoding))
            facts.put(key, known)
        return known

    def _find(self, text: str, encoding: str, thread: int) -> tuple[_Known | None, Any]:
        """A known string that ``text`` extends, and the hasher that has read that far."""
        last = self._threads.get(thread)
        if last is not None and (hasher := _read_along(text, last)) is not None:
            return last, hasher
        for known in reversed(self._heads.get((encoding, text[:_HEAD])) or ()):
            if (hasher := _read_along(text, known)) is not None:
                return known, hasher
        return None, None

    def _remember(self, text: str, start: int, hasher: Any, chain: Chain, encoding: str, thread: int) -> None:
        hasher = hasher or xxhash.xxh3_128()
        n = len(text) - 1
        _absorb(hasher, text, start, n)
        known = _Known(n, _tail(text, n), hasher.digest(), chain)
        self._threads.put(thread, known)
        head = (encoding, text[:_HEAD])
        recent = self._heads.get(head)
        if recent is None:
            self._heads.put(head, [known])
        else:
            recent.append(known)
            if len(recent) > _RECENT:
                del recent[0]


def _read_along(text: str, known: _Known) -> Any:
    """A hasher that has read ``known`` in ``text``; None where ``text`` does not extend it."""
    n = known.length
    if (len(text) != n + 1 and text[n : n + 1] != ",") or _tail(text, n) != known.tail:
        return None
    hasher = xxhash.xxh3_128()
    _absorb(hasher, text, 0, n)
    return hasher if hasher.digest() == known.digest else None


def _tail(text: str, end: int) -> int:
    return hash(text[max(0, end - _TAIL) : end])


@lru_cache(1024)
def _head_of(kind: str, name: str) -> bytes:
    """What the digest of a segment is taken over before its text."""
    return f"{kind}\0{name}\0".encode("utf-8", "surrogatepass")


@lru_cache(2048)
def _fact(tokens: int, method: Method) -> _Fact:
    """Most texts have as many tokens as another: one pair for all of them takes little memory."""
    return tokens, method


def _counted_on(base: int) -> Callable[[re.Match[str]], str]:
    return lambda found: f"messages[{base + int(found[1])}]"


def _absorb(hasher: Any, text: str, start: int, end: int) -> None:
    """Hash ``text[start:end]`` in pieces that stay in the processor's cache: copying megabytes costs more."""
    for at in range(start, end, _PIECE):
        hasher.update(text[at : min(at + _PIECE, end)].encode("utf-8", "surrogatepass"))


def _unseen(shape: str, digest: str) -> Segment:
    """A whole section whose text is not here: one segment, told from another by the digest alone."""
    if shape == "tools":
        return Segment("tools", "", "", "tools", 0, None, "unmeasured", digest)
    return Segment("system", "system", "", "system", 0, None, "unmeasured", digest)


def _digest_of(value: Any) -> bytes | None:
    """Equal for equal values only; None for what is no plain value."""
    try:
        if isinstance(value, str):
            return xxhash.xxh3_128_digest(value.encode("utf-8", "surrogatepass"), _OF_TEXT)
        return xxhash.xxh3_128_digest(values_written([value]))
    except ValueError:
        return None


def _opened(value: Any) -> tuple[Any, set[Reason]]:
    """``value`` parsed where it is JSON; the readable beginning where it was cut, with the reason."""
    if not isinstance(value, str) or not _LIKE_JSON.match(value):
        return value, set()  # nested values, or plain text, which may well begin with a bracket
    try:
        return loads(value), set()
    except ValueError:
        pass
    try:
        return salvage(value), {"value_cut"}
    except (ValueError, RecursionError):
        return None, {"unparsable"}
