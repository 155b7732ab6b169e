"""The provider's own word on why its cache was missed: where there is one, it overrules what was worked out."""

from __future__ import annotations

from otel_ctx.model import Access, CacheTokens, Diagnosis

_CAUSES = {
    # Anthropic
    "model_changed": "model_switch", "tools_changed": "tools_changed", "system_changed": "prefix_changed",
    "messages_changed": "prefix_changed", "context_edited": "server_side_rewrite_suspected",
    # OpenAI, and those that are named alike
    "input_changed": "prefix_changed", "context_compacted": "compaction", "prompt_cache_key_changed": "parameters_changed",
    "text_format_changed": "parameters_changed", "reasoning_effort_changed": "parameters_changed",
    "verbosity_changed": "parameters_changed", "service_tier_changed": "parameters_changed",
}  # fmt: skip
"""Its reasons; of others ("unavailable", "previous_message_not_found") nothing follows."""


def confirm(access: Access, word: Diagnosis | None, total: int, same_model: bool) -> Access:
    """``access`` as the provider's ``word`` makes it; ``total``: tokens of the prompt."""
    cause = _CAUSES.get(word.reason) if word is not None else None
    if word is None or cause is None:
        return access
    if word.reason == "model_changed" and same_model:
        cause = "parameters_changed"  # Anthropic says so of another speed, too
    read = access.actual or 0
    lost = access.lost or min(word.tokens or 0, max(0, total - read))
    if not lost:
        return access
    expected, best = max(access.expected, read + lost), access.optimal
    if best is not None and best.read < expected:
        rest = total - expected
        best = CacheTokens(expected, rest if best.write else 0, 0 if best.write else rest)
    return access._replace(
        optimal=best,
        outcome=access.outcome if access.simulated else "partial" if read else "miss",
        expected=expected,
        lost=lost,
        barrier="",
        otherwise=cause,
        sure="confirmed",
        note=word.reason,
    )
