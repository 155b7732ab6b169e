"""The completion hook of ``opentelemetry-util-genai``: prompts and answers as they are, for the analysis alone.

``OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=otelctx``. The instrumentation calls it while the span still records, and
gives it the contents even where it records none of them. Nothing of them is put on a span, an event or a metric.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from otel_ctx.live.analyzer import shared
from otel_ctx.live.faults import survive
from otel_ctx.live.install import install
from otel_ctx.live.settings import LiveSettings, live_settings
from otel_ctx.model import LogRecord

_DETAILS = "gen_ai.client.inference.operation.details"  # the event that holds the same, where it is recorded
# Operations of other calls, or of none.
_SUMS = frozenset({"create_agent", "invoke_agent", "invoke_workflow", "execute_tool"})


class ContextCompletionHook:
    """What the entry point makes. Never raises; costs the caller the time of an append."""

    def __init__(self, *, settings: LiveSettings | None = None, **options: Any) -> None:
        self._settings = live_settings(settings, options)
        self._installed = False

    def on_completion(
        self,
        *,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        system_instruction: Sequence[Any] = (),
        tool_definitions: Sequence[Any] | None = None,
        span: Any = None,
        log_record: Any = None,
        **_: Any,
    ) -> None:
        if self._settings.disabled:
            return
        try:
            context = span.get_span_context() if span is not None else None
            if context is None or not context.is_valid or not context.trace_flags.sampled:
                return
            if (getattr(span, "attributes", None) or {}).get("gen_ai.operation.name") in _SUMS:
                return
            contents = {
                "gen_ai.input.messages": tuple(inputs),
                "gen_ai.output.messages": tuple(outputs),
                "gen_ai.system_instructions": tuple(system_instruction),
                "gen_ai.tool.definitions": tuple(tool_definitions or ()),
            }
            if not any(contents.values()):
                return
            # here there is a provider; when the hook was made there may have been none
            if not self._installed:
                self._installed = True
                install(settings=self._settings)
            key = (f"{context.trace_id:032x}", f"{context.span_id:016x}")
            shared(self._settings, None).hear(key, partial(_record, key, contents, span, time.time_ns()))
        except BaseException as error:
            survive(error, "taking the contents of a call")


def _record(
    key: tuple[str, str], contents: Mapping[str, Sequence[Any]], span: Any, time_unix_nano: int
) -> LogRecord:
    """The event that the instrumentation would have emitted with these contents. Called when the span has ended."""
    told = {k: v for k, v in (getattr(span, "attributes", None) or {}).items() if k.startswith("gen_ai.")}
    scope = getattr(span, "instrumentation_scope", None)
    return LogRecord(
        trace_id=key[0],
        span_id=key[1],
        name=_DETAILS,
        time_unix_nano=time_unix_nano,
        body=None,
        attributes=told
        | {name: [_plain(item) for item in items] for name, items in contents.items() if items},
        scope_name=getattr(scope, "name", "") or "",
        scope_version=getattr(scope, "version", "") or "",
        resource=dict(getattr(getattr(span, "resource", None), "attributes", None) or {}),
    )


def _plain(value: Any) -> Any:
    """Dataclasses as mappings, as the instrumentation itself writes them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (str, int, float, bytes)) or value is None:
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return str(value)
