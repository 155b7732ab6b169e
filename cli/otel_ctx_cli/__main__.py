"""``python -m otel_ctx_cli``: the command ``otelctx`` by another door."""

from __future__ import annotations

from otel_ctx_cli.main import main

if __name__ == "__main__":
    main()
