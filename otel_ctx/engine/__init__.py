"""The only module that knows the stages: records in, Readings out.

``Engine`` reads a dump: ``feed`` reads what is new in each record and lets its text go, ``close`` folds, threads and judges
in the order of the calls' starts, so that any chunking or shuffling of the same records gives the same readings.
``LiveEngine`` says at once what is known of a call, and once more when nothing can be added.
"""

from otel_ctx.engine.live import LiveEngine
from otel_ctx.engine.offline import Engine
from otel_ctx.engine.settings import Settings

__all__ = ["Engine", "LiveEngine", "Settings"]
