"""The public surface is what ``__all__`` says, loads lazily, and works as the docstring shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import otel_ctx


def test_every_name_is_there() -> None:
    for name in otel_ctx.__all__:
        assert getattr(otel_ctx, name).__name__ == name
    assert dir(otel_ctx) == otel_ctx.__all__


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = otel_ctx.Nothing  # type: ignore[attr-defined]


def test_importing_costs_nothing() -> None:
    heavy = ("orjson", "tiktoken", "splintr", "opentelemetry", "click")
    code = f"import sys, otel_ctx; print(sorted(m for m in sys.modules if m.split('.')[0] in {heavy}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_docstrings_example(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_text(
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"'
        + "1" * 32
        + '","spanId":"'
        + "2" * 16
        + '","name":"chat m",'
        '"startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},'
        '{"key":"gen_ai.usage.input_tokens","value":{"intValue":"7"}}]}]}]}]}\n'
    )
    engine = otel_ctx.Engine()
    for batch in otel_ctx.read([dump]):
        engine.feed(batch.spans, batch.logs)
    analysis = engine.close()
    assert [r.context.usage for r in analysis.readings] == [7]
