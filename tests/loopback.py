"""A server on loopback, in a thread of this process, for as long as a ``with`` block lasts."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Self


class Loopback:
    """What a test's server over HTTP is made of; ``url`` is without a path."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._listening = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown()
        self._listening.server_close()
        self._thread.join()
