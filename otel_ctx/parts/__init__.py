"""Message JSON and request bodies of any provider -> Parts.

One reader per message: it knows the shapes of OpenAI (Chat, Responses), Anthropic, Bedrock Converse, Gemini, the GenAI
semantic conventions, LangChain's serialisation, the AI SDK and OpenInference, and tells them apart by their keys.
Dialects hand over ``Raw`` values; nothing here looks at a library's name.
"""

from otel_ctx.parts.bodies import Body, read_body, reserve_of
from otel_ctx.parts.messages import is_mask, read_message, read_messages, read_system
from otel_ctx.parts.texts import compact, loads, salvage, structure
from otel_ctx.parts.tools import read_tools

__all__ = [
    "Body",
    "compact",
    "is_mask",
    "loads",
    "read_body",
    "read_message",
    "read_messages",
    "read_system",
    "read_tools",
    "reserve_of",
    "salvage",
    "structure",
]
