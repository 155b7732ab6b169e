"""Text and encoding -> tokens and how sure. What is native is loaded on the first count that needs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from otel_ctx.errors import SettingError
from otel_ctx.model import Method
from otel_ctx.tokens import claude, estimates
from otel_ctx.tokens.cutting import PART, parts
from otel_ctx.tokens.engines import ENGINES, KNOWN_COUNTS, Count, start

ENCODINGS = (
    "o200k_base", "cl100k_base", "claude3", "claude4.7", "gemma3", "gemma4", "deepseek_v3", "kimi_k2", "mistral_v3",
    "llama3", "qwen3", "glm4", "gpt_oss", "",
)  # fmt: skip
_Read = Callable[[str], tuple[int, bool]]  # tokens, and whether nothing had to be guessed on the way
BYTES = "bytes"  # the engine that asks no tokenizer


@dataclass(frozen=True, slots=True)
class _Reader:
    """How one encoding is counted."""

    engine: str
    method: Method
    count: _Read


class Counter:
    """Counts tokens of plain text: no framing, and special tokens spelled in it are ordinary text.

    ``engine``: ``splintr``, ``toktok`` or ``tiktoken`` to use that one alone, ``bytes`` for a quarter of the bytes,
    None for the best that is installed. Raises SettingError for another name or one that is not installed. Two
    threads may count at once. Equal texts are counted anew: the caller remembers.
    """

    def __init__(self, engine: str | None = None) -> None:
        self._requested = engine
        self._engines = tuple(each for each in ENGINES if engine in (None, each.name))
        if engine not in (None, BYTES):
            if not self._engines:
                names = ", ".join([*(each.name for each in ENGINES), BYTES])
                raise SettingError(f"tokenizer engine {engine!r}: must be one of {names}")
            if find_spec(self._engines[0].module) is None:
                raise SettingError(f"tokenizer engine {engine!r} is not installed")
        # Two threads that both miss load twice and keep one of two equal readers.
        self._readers: dict[str, _Reader] = {}
        self._dropped: dict[str, str] = {}
        self._failures = 0

    def count(self, text: str, encoding: str) -> tuple[int, Method]:
        """Tokens of ``text`` and ``exact`` or ``estimated``; an encoding that is not in ENCODINGS is estimated by
        o200k_base. Never raises for a text."""
        if not text:
            return 0, "exact"
        reader = self._readers.get(encoding) or self._reader(encoding)
        tokens, sure = reader.count(text)
        return tokens, reader.method if sure else "estimated"

    @property
    def engine(self) -> str:
        """The engines in use so far, as in ``splintr`` or ``ctok, splintr``; "" before the first count."""
        return ", ".join(sorted({reader.engine for reader in self._readers.values()}))

    def describe(self) -> dict[str, Any]:
        """For reports: what counts what, which engines were dropped and why, and how many texts made one fail."""
        readers = sorted(self._readers.items())
        return {
            "requested": self._requested or "",
            "encodings": {name: {"engine": each.engine, "method": each.method} for name, each in readers},
            "dropped": dict(sorted(self._dropped.items())),
            "failures": self._failures,
        }

    # ---- choosing

    def _reader(self, encoding: str) -> _Reader:
        if encoding not in ENCODINGS:
            encoding = ""
        reader = self._readers.get(encoding)
        if reader is None:
            reader = self._readers[encoding] = self._choose(encoding)
        return reader

    def _choose(self, encoding: str) -> _Reader:
        if encoding == "gpt_oss":  # o200k_harmony: the tokens and pattern of o200k_base, other special tokens
            return self._reader("o200k_base")
        if encoding == "":
            base = self._reader("o200k_base")
            return _Reader(base.engine, "estimated", base.count)
        model = estimates.MODELS.get(encoding)
        if encoding in claude.ENCODINGS and self._requested != BYTES:
            count = self._start("ctok", encoding, partial(claude.start, encoding))
            if count is not None and model is not None:
                return _Reader("ctok", "estimated", self._reconstructed(count, self._modelled(model)))
        for engine in self._engines:
            if encoding in engine.encodings:
                count = self._start(engine.name, encoding, partial(start, engine, encoding))
                if count is not None:
                    # Exact only where an independent tokenizer has confirmed it: there its counts are known.
                    method: Method = "exact" if encoding in KNOWN_COUNTS else "estimated"
                    return _Reader(engine.name, method, self._native(count, engine.doubtful.get(encoding)))
        if model is not None:
            return _Reader(self._reader("o200k_base").engine, "estimated", self._modelled(model))
        return _Reader(BYTES, "estimated", lambda text: (estimates.by_bytes(text), False))

    def _start(self, name: str, encoding: str, load: Callable[[], Count]) -> Count | None:
        try:
            return load()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a native module may panic, which is no Exception
            if isinstance(error, ModuleNotFoundError) and error.name == name:
                return None
            self._dropped[f"{name} {encoding}"] = f"{type(error).__name__}: {error}"
            return None

    # ---- counting

    def _native(self, count: Count, doubtful: re.Pattern[str] | None) -> _Read:
        def read(text: str) -> tuple[int, bool]:
            sure = doubtful is None or doubtful.search(text) is None
            if len(text) <= PART:
                tokens, counted = self._safely(count, text)
                return tokens, sure and counted
            total = 0
            for part, whole in parts(text):
                tokens, counted = self._safely(count, part)
                total += tokens
                sure = sure and whole and counted
            return total, sure

        return read

    def _modelled(self, model: estimates.Terms) -> _Read:
        def read(text: str) -> tuple[int, bool]:
            tokens, _ = self._reader("o200k_base").count(text)
            return estimates.estimate(model, estimates.terms(text, tokens)), False

        return read

    def _reconstructed(self, count: Count, otherwise: _Read) -> _Read:
        def read(text: str) -> tuple[int, bool]:
            tokens, counted = self._safely(count, text) if len(text) <= claude.LONGEST else (0, False)
            return (tokens, True) if counted else otherwise(text)

        return read

    def _safely(self, count: Count, text: str) -> tuple[int, bool]:
        try:
            return count(text), True
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a native module may panic, which is no Exception
            if isinstance(error, UnicodeEncodeError):
                # Half of a character in UTF-16. tiktoken counts it as U+FFFD, as a JSON encoder would send it.
                mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                if mended != text:
                    return self._safely(count, mended)
            self._failures += 1
            return estimates.by_bytes(text), False
