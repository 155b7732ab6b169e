"""A fault of ours is told once, without what it was about."""

from __future__ import annotations

import logging

import pytest

from otel_ctx.live import faults
from otel_ctx.live.faults import survive


class Panic(BaseException):
    """As native code raises it."""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_told", set())


def fail(error: BaseException, doing: str = "reading") -> None:
    try:
        raise error
    except BaseException as e:
        survive(e, doing)


@pytest.mark.parametrize(
    "error", [ValueError("secret prompt"), Panic("secret prompt"), KeyError("secret prompt")]
)
def test_type_and_place_are_told_and_not_the_message(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        fail(error)
    assert type(error).__name__ in caplog.text
    assert "test_live_faults" in caplog.text
    assert "secret" not in caplog.text
    assert all(r.exc_info is None for r in caplog.records)


def test_the_same_fault_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        fail(ValueError())
    fail(ValueError(), "writing")
    assert len(caplog.records) == 2


def test_faults_do_not_fill_a_log(caplog: pytest.LogCaptureFixture) -> None:
    for n in range(100):
        fail(ValueError(), f"doing {n}")
    assert len(caplog.records) == 20


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_what_means_stop_is_not_kept(error: BaseException) -> None:
    with pytest.raises(type(error)):
        survive(error, "reading")


def test_an_error_that_was_never_raised(caplog: pytest.LogCaptureFixture) -> None:
    survive(ValueError(), "reading")
    assert "an unknown place" in caplog.text
