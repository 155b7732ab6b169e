"""The nouns of otel_ctx, frozen. Every stage knows these and nothing of the other stages.

Times are nanoseconds since the epoch, tokens are counts, bytes are UTF-8 lengths. ``None`` means unknown, never 0.
The modules go one way: values, then what arrives and what is read of it, prompts, calls, readings, an analysis.
"""

from otel_ctx.model.analysis import Analysis, Conversation, Library, Withheld
from otel_ctx.model.call import Call, Completeness, SpanRef, Usage
from otel_ctx.model.prompt import EMPTY_CHAIN, KIND_INDEX, ZERO, Chain, Prompt, Segment, grown
from otel_ctx.model.reading import (
    Access,
    Break,
    CacheTokens,
    Context,
    Cost,
    Finding,
    NotChecked,
    Reading,
    Said,
    Tokens,
)
from otel_ctx.model.records import Cut, Event, Link, LogRecord, Span
from otel_ctx.model.telling import Part, Raw, Stored, Telling, Unseen, UsageClaim
from otel_ctx.model.values import (
    KINDS,
    METHODS,
    SEVERITIES,
    Band,
    Evidence,
    Kind,
    Method,
    Outcome,
    Reason,
    Record,
    Relation,
    Role,
    Severity,
    Status,
)

__all__ = [
    "EMPTY_CHAIN",
    "KINDS",
    "KIND_INDEX",
    "METHODS",
    "SEVERITIES",
    "ZERO",
    "Access",
    "Analysis",
    "Band",
    "Break",
    "CacheTokens",
    "Call",
    "Chain",
    "Completeness",
    "Context",
    "Conversation",
    "Cost",
    "Cut",
    "Event",
    "Evidence",
    "Finding",
    "Kind",
    "Library",
    "Link",
    "LogRecord",
    "Method",
    "NotChecked",
    "Outcome",
    "Part",
    "Prompt",
    "Raw",
    "Reading",
    "Reason",
    "Record",
    "Relation",
    "Role",
    "Said",
    "Segment",
    "Severity",
    "Span",
    "SpanRef",
    "Status",
    "Stored",
    "Telling",
    "Tokens",
    "Unseen",
    "Usage",
    "UsageClaim",
    "Withheld",
    "grown",
]
