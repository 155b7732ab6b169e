"""Message JSON and request bodies of any provider -> Parts.

One reader per message: it knows the shapes of OpenAI (Chat, Responses), Anthropic, Bedrock Converse, Gemini, the GenAI
semantic conventions, LangChain's serialisation, the AI SDK and OpenInference, and tells them apart by their keys.
Dialects hand over ``Raw`` values; nothing here looks at a library's name.
"""

from otel_ctx.parts.answers import Answer, breaks_off, read_answer, stream_events
from otel_ctx.parts.bodies import Body, mark_the_end, read_body, reserve_of
from otel_ctx.parts.history import (
    Beginning,
    Beginnings,
    History,
    Link,
    Linked,
    linked,
    pairs_written,
    values_written,
)
from otel_ctx.parts.messages import (
    as_sent,
    is_batch,
    is_reference,
    messages_of,
    read_message,
    read_messages,
    read_system,
    sent_together,
)
from otel_ctx.parts.shapes import (
    ITEM_TYPES,
    definitions_in,
    is_message,
    messages_in,
    request_in,
    response_in,
    usages_in,
)
from otel_ctx.parts.texts import (
    compact,
    is_mask,
    loads,
    mapping,
    masked_at,
    printed,
    salvage,
    structure,
    unpack,
)
from otel_ctx.parts.tiers import read_tier
from otel_ctx.parts.tools import is_cut, read_tools
from otel_ctx.parts.usages import completed, filled, read_usage

__all__ = [
    "ITEM_TYPES",
    "Answer",
    "Beginning",
    "Beginnings",
    "Body",
    "History",
    "Link",
    "Linked",
    "as_sent",
    "breaks_off",
    "compact",
    "completed",
    "definitions_in",
    "filled",
    "is_batch",
    "is_cut",
    "is_mask",
    "is_message",
    "is_reference",
    "linked",
    "loads",
    "mapping",
    "mark_the_end",
    "masked_at",
    "messages_in",
    "messages_of",
    "pairs_written",
    "printed",
    "read_answer",
    "read_body",
    "read_message",
    "read_messages",
    "read_system",
    "read_tier",
    "read_tools",
    "read_usage",
    "request_in",
    "reserve_of",
    "response_in",
    "salvage",
    "sent_together",
    "stream_events",
    "structure",
    "unpack",
    "usages_in",
    "values_written",
]
