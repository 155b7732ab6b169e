"""``install()`` for those who write no code: what ``opentelemetry-instrument`` and the declarative configuration load.

They take any class that can ``instrument()``: OpenTelemetry's own base class is not needed, and neither is the package
that has it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from otel_ctx.live.install import install, uninstall

_FROM_THE_LOADER = ("skip_dep_check", "raise_exception_on_conflict", "logger_provider")


class ContextInstrumentor:
    """Comes after the SDK is set up, in any order among the other instrumentors. Options are the fields of
    LiveSettings. Never raises: that would keep the instrumentors behind it from loading."""

    _instrumented = False  # of the class: each loader makes an object of its own

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        return ContextInstrumentor._instrumented

    def instrumentation_dependencies(self) -> Collection[str]:
        return ()

    def instrument(self, **options: Any) -> None:
        for name in _FROM_THE_LOADER:
            options.pop(name, None)
        provider, meters = options.pop("tracer_provider", None), options.pop("meter_provider", None)
        ContextInstrumentor._instrumented = install(provider, meter_provider=meters, **options)

    def uninstrument(self, **_: Any) -> None:
        ContextInstrumentor._instrumented = False
        uninstall()
