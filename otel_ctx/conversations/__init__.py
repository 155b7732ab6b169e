"""Calls -> conversations: by content first, by ids second, in the order of their starts.

A call continues the one whose history is the longest prefix of its own. Frameworks give a trace a call, sessions that begin
with equal words, sub-agents inside a parent's trace: ids alone would mix them, and most libraries give none.
"""

from otel_ctx.conversations.breaks import find_break, keeps_all, shared_segments
from otel_ctx.conversations.threads import Placed, Threads

__all__ = ["Placed", "Threads", "find_break", "keeps_all", "shared_segments"]
