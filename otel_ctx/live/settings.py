"""What may be set of the in-app part: keyword argument before ``OTELCTX_*`` variable before default.

A value that cannot be used is named once, and the next one down is taken: a typing error in a deployment must not
keep an application from starting.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from otel_ctx.findings.kinds import KINDS

if TYPE_CHECKING:
    from otel_ctx.engine import Settings

# What a value is checked by, and the engine's own settings, are imported where they are needed: mostly on the thread
# that analyses, and not while an application starts.

Mode = Literal["background", "sync"]
PREFIX = "OTELCTX_"

_log = logging.getLogger("otel_ctx")
_T = TypeVar("_T")
_UNITS = {"k": 1_000, "m": 1_000_000}
_SHOWN = 60  # characters of a wrong value
_named: set[str] = set()  # what was said already: once for a process, not once for each exporter


# ---- what a value must be; each takes the text of a variable or the value of a keyword


def _flag(value: Any) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    return value if isinstance(value, bool) else words[str(value).strip().lower()]


def _mode(value: Any) -> Mode:
    modes: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}
    return modes[str(value).strip().lower()]


def _number(value: Any, low: float, high: float, as_: Callable[[Any], _T]) -> _T:
    if isinstance(value, bool) or not low <= float(value) <= high:
        raise ValueError
    return as_(value)


def _share(value: Any) -> float:
    return _number(value, 0.01, 1.0, float)


def _milliseconds(value: Any) -> float:
    return _number(value, 1, 60_000, float)


def _bytes(value: Any) -> int:
    return _number(value, 10_000, 1 << 31, int)


def _count(value: Any) -> int:
    return _number(value, 1, 10_000_000, int)


def _room(value: Any) -> int:
    return _number(value, 0, 1 << 40, int)


def _tokenizer(value: Any) -> str | None:
    from otel_ctx.tokens import Counter

    Counter(value)  # raises SettingError for what is not known or not installed
    return None if value is None else str(value)


def _kinds(value: Any) -> frozenset[str]:
    kinds = frozenset(k.strip() for k in (value.split(",") if isinstance(value, str) else value) if k.strip())
    if not kinds <= set(KINDS):
        raise ValueError
    return kinds


def _pairs(value: Any) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return {str(k): str(v) for k, v in value.items()}
    # The last "=": names of deployments may hold one, tokens and models do not.
    split = [pair.rpartition("=") for pair in str(value).split(",") if pair.strip()]
    if not all(name.strip() and said.strip() for name, _, said in split):
        raise ValueError
    return {name.strip(): said.strip() for name, _, said in split}


def _windows(value: Any) -> Mapping[str, int]:
    windows = {}
    for model, tokens in _pairs(value).items():
        unit = _UNITS.get(tokens[-1:].lower(), 1)
        windows[model] = _count(tokens[:-1] if unit > 1 else tokens) * unit
    return windows


def _rules(value: Any) -> str | None:
    if value is None:
        return None
    from otel_ctx.rules import load

    text = Path(value).read_text("utf-8")
    load(text)  # raises RulesError
    return str(value)


def _setting(default: Any, parse: Callable[[Any], Any], allowed: str) -> Any:
    metadata = {"parse": parse, "allowed": allowed}
    return (
        field(default_factory=default, metadata=metadata)
        if default is dict
        else field(default=default, metadata=metadata)
    )


# ---- the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Each field is a keyword argument of ContextSpanProcessor, ContextSpanExporter and install, and, in
    capitals behind ``OTELCTX_``, an environment variable: ``duty`` is ``OTELCTX_DUTY``."""

    disabled: bool = _setting(False, _flag, "1 or 0")
    """Everything passes through as if otel_ctx were not there."""
    mode: Mode = _setting("background", _mode, "background or sync")
    """Behind a SimpleSpanProcessor: ``background`` analyses and sends on a thread of ours, ``sync`` on the
    thread that ends the span, as the SimpleSpanProcessor itself does: for a process that may be killed at any
    moment. A BatchSpanProcessor has a thread of its own either way."""
    duty: float = _setting(0.5, _share, "a share from 0.01 to 1")
    """The most of its time that the analysing thread may work; the rest it sleeps, so that others get the
    interpreter."""
    span_budget_ms: float = _setting(100.0, _milliseconds, "milliseconds from 1 to 60000")
    """Processor time that the spans of a batch may take, each on average; the others of the batch go out as they
    are."""
    max_batch_bytes: int = _setting(3_500_000, _bytes, "bytes from 10000 on")
    """A larger batch is sent in parts: an OTLP/gRPC receiver refuses, and the exporter drops, what is over 4
    MiB."""
    remembered_spans: int = _setting(4096, _count, "a number from 1 on")
    """Results that are kept for a second exporter of the same spans. Not less than the longest queue of an
    exporter."""
    conversations: int = _setting(10_000, _count, "a number from 1 on")
    """Conversations that are remembered; beyond it the least recently used leave."""
    kept_characters: int = _setting(16 * 1024 * 1024, _room, "a number from 0 on")
    """Characters of prompts that are held in memory, to find the place where a prompt broke. None leaves it."""
    tokenizer: str | None = _setting(None, _tokenizer, "splintr, toktok, tiktoken or bytes, and installed")
    """What counts tokens. None: the best that is installed."""
    ignore: frozenset[str] = _setting(frozenset(), _kinds, "kinds of findings, with commas between")
    """Kinds of findings that are left out."""
    windows: Mapping[str, int] = _setting(
        dict, _windows, "MODEL=TOKENS, with commas between, as in my-model=200k"
    )
    """Context windows by model (``*`` allowed), where the tables do not have them or are wrong."""
    models: Mapping[str, str] = _setting(dict, _pairs, "NAME=MODEL, with commas between")
    """Names of deployments, inference profiles or self-hosted models, and the models that they are."""
    rules: str | None = _setting(None, _rules, "the path of a TOML file that holds together")
    """A file with rows that replace those of the own tables of windows, prices and cache rules."""

    def engine(self) -> Settings:
        from otel_ctx.context import Limits
        from otel_ctx.engine import Settings

        return Settings(
            limits=Limits(windows=self.windows, models=self.models),
            text_cap=self.kept_characters,
            ignore=self.ignore,
            tokenizer=self.tokenizer,
            rules_override=Path(self.rules).read_text("utf-8") if self.rules else None,
        )


def resolve(options: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[LiveSettings, list[str]]:
    """The settings, and a sentence for each value that cannot be used."""
    known = {f.name: f for f in fields(LiveSettings)}
    wrong = [
        f"{name}: there is no such setting; there are {', '.join(known)}"
        for name in options
        if name not in known
    ]
    chosen: dict[str, Any] = {}
    for name, f in known.items():
        variable = PREFIX + name.upper()
        given: list[tuple[str, Any]] = [(name, options[name])] if name in options else []
        if environ.get(variable, "").strip():
            given.append((variable, environ[variable]))
        for place, value in given:
            try:
                chosen[name] = f.metadata["parse"](value)
                break
            except Exception:  # a value of any type may come, with methods of its own
                wrong.append(f"{place}={_short(value)} is not used: it must be {f.metadata['allowed']}")
    return LiveSettings(**chosen), wrong


def live_settings(settings: LiveSettings | None, options: Mapping[str, Any]) -> LiveSettings:
    """What a constructor was given -> settings. Never raises; what is wrong is logged, once in a process."""
    if settings is not None:
        options = {f.name: getattr(settings, f.name) for f in fields(LiveSettings)} | dict(options)
    found, wrong = resolve(options, os.environ)
    name_once(wrong)
    return found


def name_once(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        if sentence not in _named:
            _named.add(sentence)
            _log.warning("otel_ctx: %s", sentence)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
