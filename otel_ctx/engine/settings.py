"""What may be set of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ctx.context import Limits
from otel_ctx.engine.stored import Fetch
from otel_ctx.model import Finding


@dataclass(frozen=True, slots=True)
class Settings:
    """``text_cap``: characters of segment texts that are kept (None: all);
    ``ignore``: finding kinds left out (``KIND``, or ``KIND:PATH`` at one place);
    ``tokenizer``: the engine that counts (None: the best that is installed); ``rules_override``: TOML over the rules;
    ``discreet``: what is no name is known by its digest, where a name or an id is meant;
    ``contents``: how what a record only refers to is had (None: it is not)."""

    limits: Limits = Limits()
    text_cap: int | None = 64 * 1024 * 1024
    ignore: frozenset[str] = frozenset()
    tokenizer: str | None = None
    rules_override: str | None = None
    contents: Fetch | None = None
    discreet: bool = False

    def leaves_out(self, finding: Finding) -> bool:
        return finding.kind in self.ignore or f"{finding.kind}:{finding.path}" in self.ignore
