"""What the provider's prompt cache should have read of each call, and why it did not.

The rules are data (``otel_ctx.rules``); a mechanism is code. Nothing here looks at text: a prompt is a row of keys and
places in tokens, its time is that of its span.
"""

from otel_ctx.cache.simulate import Simulator

__all__ = ["Simulator"]
