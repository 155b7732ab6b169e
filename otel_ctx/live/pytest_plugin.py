"""pytest: the fixture ``otelctx``, which holds what a test's agent did against bounds.

Every pytest of an environment that has otel_ctx imports this module: it imports nothing, and does nothing, until a test asks
for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from otel_ctx.live.testing import Recording


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """pytest rewrites the asserts of all that a plugin's distribution holds. There is nothing in them to be shown, and where
    bytecode cannot be kept each run would pay for it."""
    marked = getattr(getattr(early_config.pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {"otel_ctx", "otel_ctx_cli"}


@pytest.fixture
def otelctx() -> Iterator[Recording]:
    """The model calls of this test, from the spans that it ends: ``otelctx.check(max_context=60_000, stable_prefix=True)``,
    ``otelctx.report``. It listens to the global TracerProvider and LoggerProvider; ``otelctx.attach(provider)`` to another."""
    from otel_ctx.live.testing import Recording

    recording = Recording()
    recording.attach_global()
    try:
        yield recording
    finally:
        recording.detach()
