"""What happens when something of ours fails: the host never sees it, and one line says where.

Native code panics with exceptions that are no ``Exception``; those that mean "stop" are not ours to keep.
"""

from __future__ import annotations

import logging

_log = logging.getLogger("otel_ctx")
_MOST = 20  # different faults that are told of: then it is clear that something is wrong
_told: set[tuple[str, str, str]] = set()


def survive(error: BaseException, doing: str, then: str = "spans pass through unchanged") -> None:
    """Log ``error`` and return; raise it again where it means to end the thread or the process.

    The message of an exception may hold what it was raised about, a prompt for instance: type and place are
    told, once, and what comes of it: ``then``."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        raise error
    place = _place(error)
    fault = (doing, type(error).__name__, place)
    if fault in _told or len(_told) >= _MOST:
        return
    _told.add(fault)
    _log.warning("otel_ctx: %s failed with %s at %s; %s", doing, fault[1], place, then)


def _place(error: BaseException) -> str:
    at = error.__traceback__
    if at is None:
        return "an unknown place"
    while at.tb_next is not None:
        at = at.tb_next
    return f"{at.tb_frame.f_globals.get('__name__', '?')}:{at.tb_lineno}"
