"""Lines of a report to stdout: with colours where a person looks on, in characters that the stream has."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_ctx.outputs.text import Line

_WIDEST = 120  # longer lines are hard to read
_WIDEST_TABLE = 200

# One column each, like what they stand for.
_ASCII = str.maketrans("█▉▊▋▌▍▎▏▒░·–…→›└×│─", "########+.|-~>>`x|-")


def width() -> int:
    """Columns of the terminal, 80 where stdout is none; COLUMNS overrides."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def wide() -> int:
    """The same for tables and bars, which may be wider than what is read line by line."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST_TABLE)


def print_lines(lines: Iterable[Line]) -> bool:
    """Whether somebody reads on."""
    from otel_ctx.outputs.text.ansi import coloured
    from otel_ctx.outputs.text.layout import plain

    drawn = coloured if colour() else plain
    text = "".join(drawn(line) + "\n" for line in lines)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return write(text.encode(encoding))


def write(data: bytes) -> bool:
    """``data`` to stdout. That nobody reads on, as in ``otelctx … | head``, is no fault of anyone: then False."""
    stream = sys.stdout.buffer
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        # What is still in the buffer would be tried again, and complained about, at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def colour() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
