"""Bounds that an analysis is held against: what ``otelctx check`` and a test's ``otelctx.check`` ask, as data.

A verdict has three values. What was not seen is never a pass: where the calls that were seen keep a bound and others could
break it, it is "not checked", and says why. A larger bound never gives a worse verdict.
"""

from otel_ctx.outputs.views.gates.bounds import Gates, gates_of
from otel_ctx.outputs.views.gates.judging import Result, Verdict, judge

__all__ = ["Gates", "Result", "Verdict", "gates_of", "judge"]
