"""Text -> tokens and how sure. Importing this loads no tokenizer; counting never touches the network."""

from __future__ import annotations

from otel_ctx.tokens.counter import ENCODINGS, Counter

__all__ = ["ENCODINGS", "Counter"]
