"""The full screen of ``otelctx watch``: drawn by rich, left as it was found."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from otel_ctx.outputs.text.ansi import coloured
from otel_ctx.outputs.text.board import board
from otel_ctx.outputs.text.layout import plain
from otel_ctx_cli.terminal import colour

if TYPE_CHECKING:
    from otel_ctx.outputs.views.board import Board

_KEY = 0.1  # seconds in which a key is heard


class Source(Protocol):
    board: Board
    note: str

    def look(self) -> bool: ...


def show(source: Source, name: str, looks: Iterator[tuple[bool, float]]) -> None:
    """Until q or Ctrl-C."""
    console = Console(highlight=False, no_color=not colour())
    with (
        _terminated(),
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False, transient=True) as live,
    ):
        due, drawn = 0.0, None
        while True:
            new = False
            if time.monotonic() >= due:
                new, rest = next(looks)
                due = time.monotonic() + rest
                source.board.fresh.clear()
            now = shutil.get_terminal_size((80, 24)), source.note
            if new or now != drawn:
                drawn = now
                live.update(_frame(source, name, *now[0]), refresh=True)
            if pressed(_KEY) in ("q", "Q"):
                return


def _frame(source: Source, name: str, width: int, height: int) -> Text:
    drawn = coloured if colour() else plain
    lines = board(source.board.rows(), name, source.note, width, height)
    return Text.from_ansi("\n".join(map(drawn, lines)), no_wrap=True, overflow="crop")


def _silence(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def _keys() -> Iterator[Any]:
    """What was pressed within some seconds, "" where nothing was. Keys are not shown, and the terminal is restored."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C ends it
        yield _silence
        return
    import os
    import select

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([stdin], [], [], seconds)
        if not ready:
            return ""
        data = os.read(stdin, 1)
        return data.decode("ascii", "replace") if data else "q"  # nobody is there any more

    try:
        tty.setcbreak(stdin)
        yield pressed
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


@contextmanager
def _terminated() -> Iterator[None]:
    """Whoever ends the process gets the terminal back, too."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
