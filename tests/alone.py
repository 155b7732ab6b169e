"""The command as it would be, did nobody know a family of instrumentations: with the generic reader alone, or without the
readers that are named. With it a corpus can be scored as a whole:

    fidelity.py CORPUS --cmd "python tests/alone.py"
    fidelity.py CORPUS --cmd "python tests/alone.py --without openinference" oi-anthropic oi-openai-chat
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any

from otel_ctx import dialects
from otel_ctx.dialects import generic
from otel_ctx_cli.main import main

Readers = tuple[Callable[[Any], Any], ...]


def readers(without: Collection[str] = ()) -> tuple[Readers, Readers]:
    """Readers of spans and of log records: all but those of the dialects ``without``; where none is named, the generic one
    alone, and all that read log records."""
    if not without:
        return (generic.read,), dialects.LOG_READERS
    return _but(dialects.READERS, without), _but(dialects.LOG_READERS, without)


def _but(all_: Readers, without: Collection[str]) -> Readers:
    return tuple(r for r in all_ if r.__module__.split(".")[2] not in without)


if __name__ == "__main__":
    named: list[str] = []
    if sys.argv[1:2] == ["--without"]:
        named = sys.argv[2].split(",")
        del sys.argv[1:3]
    dialects.READERS, dialects.LOG_READERS = readers(named)
    main()
