"""The spans of a test, kept in memory, and asserts on the model calls that they tell of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from otel_ctx.engine import Engine, Settings
from otel_ctx.errors import OtelCtxError
from otel_ctx.inputs.sdk import log_record_of, span_of
from otel_ctx.live.pipelines import active_processor
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.text.gates import WORDS, asked
from otel_ctx.reports import Report

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadWriteLogRecord

_NO_PROVIDER = (
    "no TracerProvider of the SDK was there when the test began: set one up before it (a session fixture), or give the one of "
    "the test, otelctx.attach(provider), before the agent runs"
)
_NO_SPAN = "no span was ended while otelctx listened: is the agent instrumented, and on the provider that it is attached to?"


class Recording:
    """``with Recording().attach(provider) as recording: …``, or pytest's fixture ``otelctx``. Spans are looked at when they
    are asked for: the agent only pays for keeping them."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._spans: list[ReadableSpan] = []
        self._logs: list[Any] = []
        self._undo: list[Callable[[], None]] = []
        self._made: tuple[tuple[int, int], Report] | None = None

    # ---- where it listens

    def attach(self, provider: object, logger_provider: object = None) -> Self:
        """Listen to ``provider``, and to the log records of ``logger_provider``, where an instrumentation puts contents
        there. Twice is once."""
        around = active_processor(provider)
        processors = getattr(around, "_span_processors", None)
        if processors is None or not hasattr(provider, "add_span_processor"):
            raise OtelCtxError(f"{type(provider).__name__} is no TracerProvider of the OpenTelemetry SDK")
        if not any(isinstance(p, _Listener) and p.heard is self._spans for p in processors):
            listener = _Listener(self._spans)
            provider.add_span_processor(listener)
            self._undo.append(lambda: _take_out(around, "_span_processors", listener))
        if logger_provider is not None:
            self._attach_logs(logger_provider)
        return self

    def attach_global(self) -> None:
        """Listen to what is global, as far as it is the SDK's."""
        from opentelemetry import _logs

        provider, logs = trace.get_tracer_provider(), _logs.get_logger_provider()
        logged = logs if hasattr(logs, "add_log_record_processor") else None
        if active_processor(provider) is not None:
            self.attach(provider, logged)
        elif logged is not None:
            self._attach_logs(logged)

    def _attach_logs(self, provider: Any) -> None:
        from opentelemetry.sdk._logs import LogRecordProcessor

        heard = self._logs

        class Listener(LogRecordProcessor):
            def on_emit(self, log_record: ReadWriteLogRecord) -> None:
                heard.append(log_record)

            def shutdown(self) -> None: ...

            def force_flush(self, timeout_millis: int = 30_000) -> bool:
                return True

        listener = Listener()
        provider.add_log_record_processor(listener)
        around = getattr(provider, "_multi_log_record_processor", None)
        self._undo.append(lambda: _take_out(around, "_log_record_processors", listener))

    def detach(self) -> None:
        """The providers are as they were. What was heard stays."""
        undo, self._undo = self._undo, []
        for each in reversed(undo):
            each()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    # ---- what it heard

    def clear(self) -> None:
        """Forget the spans so far: what follows is looked at alone."""
        self._spans.clear()
        self._logs.clear()

    @property
    def report(self) -> Report:
        """Of the spans so far. Raises OtelCtxError where none was ended."""
        if not self._spans and not self._logs:
            raise OtelCtxError(_NO_SPAN if self._undo or self._made else _NO_PROVIDER)
        heard = len(self._spans), len(self._logs)
        if self._made is None or self._made[0] != heard:
            engine = Engine(self._settings)
            engine.feed(map(span_of, self._spans[: heard[0]]), map(log_record_of, self._logs[: heard[1]]))
            self._made = heard, Report(engine.close(), Inputs((), ()))
        return self._made[1]

    def check(self, *, strict: bool = True, agent: str = "", **gates: float | bool | None) -> None:
        """Raises AssertionError unless all of ``gates`` hold, which are those of ``otelctx check``: max_context,
        max_percent, max_growth, max_growth_percent, stable_prefix, no_eviction, no_dead_schemas, min_hit_ratio, max_waste,
        max_waste_usd. What could not be checked fails too, where ``strict``; without a model call all fail."""
        __tracebackhide__ = True
        report = self.report
        if agent:
            report = report.select(agent=agent)
        found = report.check(**gates)
        if not found:
            raise OtelCtxError("no bound was given: otelctx.check(max_context=60_000), for example")
        strict = strict or not report.calls
        bad = [v for v in found if v.result == "fail" or (strict and v.result == "not_checked")]
        if bad:
            lines = (f"{WORDS[v.result]}  {asked(v)}: {v.told}" for v in bad)
            raise AssertionError("\n".join(lines))


class _Listener(SpanProcessor):
    def __init__(self, heard: list[ReadableSpan]) -> None:
        self.heard = heard

    def on_end(self, span: ReadableSpan) -> None:
        self.heard.append(span)


def _take_out(around: Any, name: str, listener: object) -> None:
    """The SDK has no way to take a processor away: as it adds them, a new tuple."""
    with around._lock:
        setattr(around, name, tuple(p for p in getattr(around, name) if p is not listener))
