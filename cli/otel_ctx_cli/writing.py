"""Reports into files: all of one or nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.main import Failure

if TYPE_CHECKING:
    from otel_ctx.outputs.text import Line


def writable(path: Path, inputs: Sequence[str], option: str = "--json") -> None:
    """Told before the work, not after it."""
    if path.is_dir():
        raise click.BadParameter(f"{click.format_filename(path)} is a folder.", param_hint=option)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(
            f"there is no folder {click.format_filename(path.parent)}.", param_hint=option
        )
    for given in inputs:
        if path.exists() and Path(given).exists() and path.samefile(given):
            raise click.BadParameter(f"{click.format_filename(path)} is an input.", param_hint=option)


def replace(path: Path, data: bytes) -> None:
    """All of ``data`` or nothing: until then the file stays what it was. A pipe or a device is just written to."""
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        try:
            with part.open("xb") as stream:
                stream.write(data)
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Failure(f"{click.format_filename(path)}: cannot be written: {why}") from None


def check_target(path: str | None, inputs: Sequence[str], option: str = "--json") -> None:
    """Before the work: can the file that ``option`` names be written?"""
    if path not in (None, "-"):
        writable(Path(str(path)), inputs, option)


def tell(path: str | None, data: Callable[[], bytes], lines: Callable[[], Iterable[Line]]) -> None:
    """``data`` into the file ``path`` and ``lines`` onto the screen; only ``data``, to stdout, where ``path`` is "-"."""
    from otel_ctx_cli.terminal import print_lines, write

    if path == "-":
        write(data())
        return
    if path is not None:
        replace(Path(path), data())
    print_lines(lines())
