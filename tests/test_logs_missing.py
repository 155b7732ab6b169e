"""Contents in log records that were not given: said where the library is known to write records of every call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_ctx import Engine, read

if TYPE_CHECKING:
    from conftest import CorpusCase

LOGGED = (
    "otel-openai-v2-chat-legacy-events",
    "otel-botocore-bedrock-converse",
    "otel-google-genai-07b2-legacy-events",
)


def statuses(*paths: Path) -> set[tuple[str, tuple[str, ...]]]:
    engine = Engine()
    for batch in read([str(p) for p in paths]):
        engine.feed(batch.spans, batch.logs)
    return {(r.call.completeness.status, r.call.completeness.reasons) for r in engine.close().readings}


@pytest.mark.parametrize("name", LOGGED)
def test_spans_without_their_records(name: str, corpus_case: Callable[[str], CorpusCase]) -> None:
    folder = corpus_case(name).folder
    assert statuses(folder / "traces.jsonl.gz") == {("usage_only", ("logs_missing",))}


@pytest.mark.parametrize("name", LOGGED)
def test_spans_with_their_records(name: str, corpus_case: Callable[[str], CorpusCase]) -> None:
    folder = corpus_case(name).folder
    said = statuses(folder / "traces.jsonl.gz", folder / "logs.jsonl.gz")
    assert all("logs_missing" not in reasons and status != "usage_only" for status, reasons in said)


def test_records_without_contents_are_contents_that_were_not_captured(
    corpus_case: Callable[[str], CorpusCase],
) -> None:
    folder = corpus_case("otel-openai-v2-chat-legacy-off").folder
    said = statuses(folder / "traces.jsonl.gz", folder / "logs.jsonl.gz")
    assert all("not_captured" in reasons and "logs_missing" not in reasons for _, reasons in said)
    assert {status for status, _ in said} == {"usage_only"}


def test_contents_on_the_spans_ask_for_no_records(corpus_case: Callable[[str], CorpusCase]) -> None:
    folder = corpus_case("otel-google-genai-spanonly-cached").folder
    assert all("logs_missing" not in reasons for _, reasons in statuses(folder / "traces.jsonl.gz"))
