"""``python -m tests.provider_stub --port 8901``, from the root of the repository: serves until it is interrupted."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tests.provider_stub.server import ProviderStub


def failure(value: str) -> tuple[int, int]:
    number, _, status = value.partition(":")
    return int(number), int(status or 429)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.provider_stub", description="A model provider on loopback."
    )
    parser.add_argument("--port", type=int, default=8901, help="0 takes a free one (default: 8901)")
    parser.add_argument(
        "--log", type=Path, help="append each request and its answer to this file, one JSON a line"
    )
    parser.add_argument(
        "--fail", type=failure, action="append", default=[], metavar="N[:STATUS]",
        help="answer request N with an error (default: 429); may be given several times",
    )  # fmt: skip
    options = parser.parse_args()
    with (
        suppress(KeyboardInterrupt),
        ProviderStub(port=options.port, log=options.log, failures=dict(options.fail)) as stub,
    ):
        sys.stdout.write(
            f"{stub.url} : OPENAI_BASE_URL={stub.url}/v1, ANTHROPIC_BASE_URL={stub.url}; keys may be anything\n"
        )
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
