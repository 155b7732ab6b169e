"""What outlives a restart: conversations and deliveries, in one file of digests, counts and positions.

No prompt text: the texts that an engine holds are no part of its state, and what may quote one is taken out. The file is a
pickle behind a head with a checksum. It is read by an unpickler that knows the engine's own classes and no others, and
only where version and fields of these classes are those that wrote it; any other file is set aside.
"""

from __future__ import annotations

import array
import io
import json
import os
import pickle
import re
import stat
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from types import MethodType
from typing import Any

import xxhash

from otel_ctx.conversations.memory import End
from otel_ctx.findings.window import is_too_long
from otel_ctx.model import Call, Chain, Finding, Telling

_MAGIC = b"otelctx state 2\n"
_NAME = "gateway.state"
_LINKED: tuple[type, ...] = (Chain, End)
"""Each refers to the one before it, thousands deep: they are written one after the other, not one inside the other."""
_HOMES = ("model", "memo", "calls", "cache", "context", "conversations", "engine", "live.gateway.delivered")
_PLAIN: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "deque"): deque,
    ("array", "array"): array.array,
    ("array", "_array_reconstructor"): array._array_reconstructor,  # type: ignore[attr-defined]
}
_WORD = re.compile(r"[\w.:/-]{1,80}")
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # where a pipe stands, an error and no wait
_LONGEST = 4 << 30  # bytes, unpacked

Outside = Mapping[str, object]
"""By name, what a state refers to and does not hold."""


class StateError(Exception):
    """The file cannot be used; says why."""


class Store:
    """The state in a folder that no other gateway uses meanwhile. OSError where it cannot be had."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.path = self._folder / _NAME
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(self._folder / "lock")
        except OSError as error:
            if error.errno is None:  # in words already
                raise
            raise OSError(f"state_dir: {folder} cannot be used as a folder: {error.strerror}") from None

    def save(self, packed: bytes) -> None:
        """All of it or nothing. Raises OSError."""
        new = self.path.with_suffix(".new")
        try:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _AT_ONCE, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(packed)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise

    def load(self) -> bytes | None:
        """StateError where what is there is no file that can be read."""
        try:
            mode = self.path.stat().st_mode
            # to open a pipe is to wait for who writes to it
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise StateError("it is no regular file")
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"it cannot be read ({error.strerror})") from None

    def set_aside(self) -> Path:
        """Where the file is now: kept to be looked at, until the next one comes there. Raises OSError."""
        aside = self.path.with_suffix(".aside")
        if self.path.is_dir() or aside.is_dir():  # a folder and a file do not take each other's place
            aside = next(a for n in count(1) if not (a := self.path.with_suffix(f".aside{n}")).exists())
        self.path.replace(aside)
        return aside

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def packed(state: Any, outside: Outside) -> bytes:
    """``state`` as a file's content."""
    writing = _Writing(outside)
    writing.dump(state)
    body = zlib.compress(writing.out.getbuffer(), 1)
    head = {
        "version": version("otel-ctx"),
        "layout": _layout(),
        "saved": time.time(),
        "digest": xxhash.xxh3_128_hexdigest(body),
    }
    return _MAGIC + json.dumps(head).encode() + b"\n" + body


def unpacked(content: bytes, outside: Callable[[], Outside]) -> tuple[Any, float]:
    """The state and when it was saved (Unix time). ``outside`` is asked once the file is found sound. StateError where it
    cannot be used."""
    head, body = _opened(content)
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, _LONGEST)
        unpickler = _Unpickler(io.BytesIO(data), outside())
        state = unpickler.load()
        unpickler.load_linked()
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"it does not hold together ({type(error).__name__})") from None
    return state, float(head["saved"])


def plain(content: bytes) -> bytes:
    """What is in the file, unpacked: to be searched. StateError as ``unpacked``."""
    return zlib.decompress(_opened(content)[1])


def _opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    if not content.startswith(_MAGIC):
        raise StateError("it is no state of a gateway of this version")
    head_line, _, body = content[len(_MAGIC) :].partition(b"\n")
    try:
        head = json.loads(head_line)
        digest, written, layout = head["digest"], head["version"], head["layout"]
        float(head["saved"])
    except (ValueError, KeyError, TypeError):
        raise StateError("its head is damaged") from None
    if xxhash.xxh3_128_hexdigest(body) != digest:
        raise StateError("it is torn or was changed")
    if written != version("otel-ctx"):
        raise StateError(f"it was written by version {written}")
    if layout != _layout():
        raise StateError("it was written by another version")
    return head, body


# ---- classes


def _is_ours(module: str) -> bool:
    home = module.removeprefix("otel_ctx.")
    return module != home and any(home == h or home.startswith(f"{h}.") for h in _HOMES)


def _class(module: str, name: str) -> type:
    if _is_ours(module):
        found = getattr(import_module(module), name, None)
        if isinstance(found, type) and found.__module__ == module:
            return found
    raise StateError(f"it holds a {module}.{name}")


@cache
def _layout() -> str:
    """Of what the classes are made: a state of other fields would be misread."""
    classes = {
        f"{name}.{c.__name__}": [f.name for f in fields(c)]
        if is_dataclass(c)
        else list(getattr(c, "_fields", ()))
        for name in sorted(_modules())
        for c in vars(import_module(name)).values()
        if isinstance(c, type) and c.__module__ == name
    }
    return xxhash.xxh3_64_hexdigest(json.dumps(classes, sort_keys=True).encode())


def _modules() -> Iterator[str]:
    for home in _HOMES:
        module = import_module(f"otel_ctx.{home}")
        yield module.__name__
        for found in walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            yield found.name


# ---- writing


class _Writing:
    """One pickle after the other in one stream: the state, then lists of what is linked until one is empty."""

    def __init__(self, outside: Outside) -> None:
        self.out = io.BytesIO()
        self._names = {id(thing): name for name, thing in outside.items()}
        self._outside = outside  # ids are theirs as long as they live
        self._linked: dict[int, tuple[int, Any]] = {}
        self._waiting: list[Any] = []
        self._pickler = pickle.Pickler(self.out, protocol=5)
        # By class: to be asked about each object takes ten times as long.
        self._pickler.dispatch_table = {
            **dict.fromkeys(_LINKED, self._link),
            **{type(thing): self._name for thing in outside.values()},
            MethodType: self._method,
            Finding: _without_text,
            Call: _without_text,
            Telling: _without_text,
        }

    def dump(self, state: Any) -> None:
        self._pickler.dump(state)
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self._pickler.dump([tuple(getattr(each, f.name) for f in fields(each)) for each in batch])
        self._pickler.dump([])

    def _link(self, each: Any) -> Any:
        known = self._linked.get(id(each))
        if known is None:
            known = self._linked[id(each)] = (len(self._linked), each)
            self._waiting.append(each)
        return linked, (_LINKED.index(type(each)), known[0])

    def _name(self, thing: Any) -> Any:
        name = self._names.get(id(thing))
        return (named, (name,)) if name is not None else thing.__reduce_ex__(5)

    def _method(self, method: Any) -> Any:
        return named, (self._names[id(method.__self__)], method.__name__)


def linked(kind: int, number: int) -> Any:
    """Stands in the file for what is linked; the reader knows what it means."""
    raise NotImplementedError


def named(*name: str) -> Any:
    """The same for what is outside."""
    raise NotImplementedError


def _without_text(obj: Any) -> Any:
    """The words of an error may quote the prompt, and an excerpt does."""
    if isinstance(obj, Finding):
        obj = replace(obj, excerpt="") if obj.excerpt else obj
    elif obj.error and not _WORD.fullmatch(obj.error):
        error = "context_length_exceeded" if is_too_long(obj.error) else "error"
        obj = obj._replace(error=error) if isinstance(obj, Telling) else replace(obj, error=error)
    return obj.__reduce_ex__(5)


# ---- reading


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, outside: Outside) -> None:
        super().__init__(file)
        self._outside = outside
        self._linked: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__:
            return {"linked": self._link, "named": self._name}[name]
        return _PLAIN.get((module, name)) or _class(module, name)

    def _link(self, kind: int, number: int) -> Any:
        if number not in self._linked:
            self._linked[number] = object.__new__(_LINKED[kind])
        return self._linked[number]

    def _name(self, name: str, method: str = "") -> Any:
        thing = self._outside[name]
        if method.startswith("_"):
            raise StateError(f"it refers to {method!r}")
        return getattr(thing, method) if method else thing

    def load_linked(self) -> None:
        n = 0
        while batch := self.load():
            for values in batch:
                each = self._linked.get(n)
                names = [f.name for f in fields(each)] if each is not None else []
                if each is None or len(names) != len(values):
                    raise StateError("a link of it is missing")
                for name, value in zip(names, values, strict=True):
                    object.__setattr__(each, name, value)
                n += 1
        if n != len(self._linked):
            raise StateError("a link of it is missing")


def _locked(path: Path) -> int | None:
    """A lock that ends with the process; None where the system has none."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise OSError(f"{path.parent} is in use by another gateway") from None
    return handle
