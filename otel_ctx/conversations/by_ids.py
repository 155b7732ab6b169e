"""Which history a call continues, by ids: of a response, a session, a trace, a tool call that it answers."""

from __future__ import annotations

from otel_ctx.conversations.compare import before, other_hint, shrunk
from otel_ctx.conversations.memory import End, Memory, groups
from otel_ctx.model import Call


def by_response(memory: Memory, call: Call) -> End | None:
    """The call names the response that it continues."""
    ends = memory.ends.get(call.previous_response_id) if call.previous_response_id else []
    return ends[-1] if ends else None


def by_group(memory: Memory, call: Call) -> End | None:
    """Without content only ids are left: the conversation's, else the trace's."""
    for group in groups(call):
        for e in reversed(memory.by_group.get(group)):
            if (
                before(e.call, call)
                and e.call.agent == call.agent
                and not other_hint(e.call, call)
                and _same_run(memory, e.call, call)
            ):
                return e
    return None


def _same_run(memory: Memory, old: Call, new: Call) -> bool:
    """Could the tree of spans have both in one run of an agent? A sub-agent's calls hang deeper than those around them;
    and where each hangs below a span of its own, as steps do, the window of a sub-agent starts anew."""
    if old.trace_id != new.trace_id:
        return True
    mine, theirs = ([key for _, key in memory.ancestors(call)] for call in (new, old))
    common = next((key for key in mine if key in theirs), None)
    if common is None:
        return True
    steps = mine.index(common)
    if steps != theirs.index(common):
        return False
    return steps == 0 or (new.usage.input or 0) > (old.usage.input or 0)


def by_server(memory: Memory, call: Call) -> End | None:
    """The history lies on the server: a tool result names the tool call that it answers; a growing input in the same
    trace or session is the next best word."""
    first = call.prompt.messages.first
    if first is not None and first.call_id and first.kind == "tool_result":
        ends = [e for e in memory.by_tool_call.get(first.call_id) if before(e.call, call)]
        if ends:
            return ends[-1]
    for group in groups(call):
        for e in reversed(memory.by_group.get(group)):
            grown = (call.usage.input or 0) >= (e.call.usage.input or 0)
            if before(e.call, call) and grown and not e.extended and not other_hint(e.call, call):
                return e
    return None


def summed_up(memory: Memory, call: Call) -> End | None:
    """What the summary stands for, where the call itself says that it begins with one, or the one before asked for it: the
    session as it was."""
    ends = memory.by_group.get(("hint", call.conversation_hint)) if call.conversation_hint else []
    for e in reversed(ends):
        if before(e.call, call) and e.call.agent == call.agent:
            return e if call.compacted or (e.call.sums_up and _begins_anew(e.call, call)) else None
    return None


def _begins_anew(old: Call, new: Call) -> bool:
    """Is the history another one than that which was to be summed up? Not every summary takes its place."""
    was, now = old.prompt.messages.first, new.prompt.messages.first
    if new.sums_up:
        return False
    if was is not None and now is not None:
        return was.digest != now.digest
    return shrunk(old.usage.input, new.usage.input)
