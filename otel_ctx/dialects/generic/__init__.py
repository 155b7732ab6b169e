"""Spans of a library that no other reader knows. It guesses, says so and on what evidence.

It goes by shapes: messages, request and response bodies of the providers' APIs, tool definitions and usage look the same
under whatever key; the words of the names that lead to them say which side of the call they stand on. A span is a call
where it says that it is one, or where it names a model and has tokens or messages; tools, retrievals and the like are
none, and agents and chains repeat the calls below them.

One way: ``names`` and ``values`` say what each attribute is, ``seen`` gathers it, ``prompt`` and ``usage`` choose among what
is told twice, ``reader`` makes the telling. ``records`` does the
same for log records of unknown events.
"""

from otel_ctx.dialects.generic.reader import read, with_content
from otel_ctx.dialects.generic.records import read_log

__all__ = ["read", "read_log", "with_content"]
