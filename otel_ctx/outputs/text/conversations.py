"""The conversations, most urgent first: how full, how soon full, what was found, and what of them was not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ctx.model import Context, Conversation, Reading, Severity
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.findings import STYLES, ordered, tally
from otel_ctx.outputs.text.layout import (
    BLANK,
    DOT,
    NOTHING,
    Line,
    Run,
    Style,
    bar,
    clip,
    facts,
    heading,
    line,
    many,
    moment,
    more,
    number,
    paragraph,
    percent,
)
from otel_ctx.outputs.text.view import BAND_STYLES, URGENCY, View, mark, some, who
from otel_ctx.outputs.views.listing import not_joined

_SHOWN = 6
_CALM_SHOWN = 3  # where nothing is urgent, a few will do
_INDENT = 12
_DEEPEST = 4  # levels of sub-agents that are indented further
_AS_URGENT: Mapping[Severity, int] = {
    "error": URGENCY["critical"], "warning": URGENCY["low"], "info": URGENCY["ok"],
}  # fmt: skip
_SOURCES = {
    "setting": "limit set by --limit",
    "attribute": "limit from the span",
    "rules": "limit from the model table",
    "observed": "limit inferred: a larger prompt succeeded",
}


def conversations(view: View) -> Iterator[Line]:
    tree = _tree(view)
    if not tree:
        return
    note = "most urgent first" if len(tree) > 1 else ""
    yield from heading("Conversations", note, view.width)
    urgent = max((i for i, (c, _) in enumerate(tree, 1) if _urgency(view, c)[0] <= URGENCY["low"]), default=0)
    shown = tree[: view.limit(min(max(urgent, _CALM_SHOWN), _SHOWN))]
    yield BLANK
    yield line("  ", Run("headroom", "dim"))  # of the column of bands: "ok" is not said of all that was found
    for n, (conversation, level) in enumerate(shown):
        if n:
            yield BLANK
        yield from _block(view, conversation, level)
    alone = not_joined(view.analysis.readings)
    if alone:
        yield BLANK
        yield from paragraph(alone, view.width, 2, "notice")
    hidden = tree[len(shown) :]
    if hidden:
        errors = sum(any(f.severity == "error" for f in view.found.get(c.id, ())) for c, _ in hidden)
        yield BLANK
        yield from more(len(hidden), "conversation", 2, f", {errors:,} with errors" if errors else "")


def _tree(view: View) -> list[tuple[Conversation, int]]:
    """Every conversation with its level, a sub-agent under the conversation that called it. A family stands where its
    most urgent member does."""
    children: dict[str, list[Conversation]] = {}
    roots = []
    for conversation in view.conversations.values():
        parent = conversation.parent
        if parent is not None and parent in view.conversations and not _in_circle(view, conversation):
            children.setdefault(parent, []).append(conversation)
        else:
            roots.append(conversation)
    families = {root.id: _family(view, root, children) for root in roots}
    roots.sort(key=lambda root: min(_urgency(view, c) for c, _ in families[root.id]))
    return [member for root in roots for member in families[root.id]]


def _in_circle(view: View, conversation: Conversation) -> bool:
    seen, current = set(), conversation
    while current.id not in seen:
        seen.add(current.id)
        if current.parent is None or current.parent not in view.conversations:
            return False
        current = view.conversations[current.parent]
    return True


def _family(
    view: View, root: Conversation, children: dict[str, list[Conversation]]
) -> list[tuple[Conversation, int]]:
    out, waiting = [], [(root, 0)]
    while waiting:
        conversation, level = waiting.pop()
        out.append((conversation, level))
        below = sorted(children.get(conversation.id, ()), key=lambda c: _urgency(view, c), reverse=True)
        waiting += [(child, level + 1) for child in below]
    return out


def _urgency(view: View, conversation: Conversation) -> tuple[int, int]:
    """The worse of how full it is and of what was found in it; then the deepest first."""
    found = (_AS_URGENT[f.severity] for f in view.found.get(conversation.id, ()))
    return min((URGENCY[conversation.band], *found)), -(conversation.usage_last or 0)


def _block(view: View, conversation: Conversation, level: int) -> Iterator[Line]:
    last = view.last(conversation)
    context, style = last.context, BAND_STYLES[conversation.band]
    step = 2 * min(level, _DEEPEST)
    indent = _INDENT + step
    yield _title(view, conversation, step)
    yield _gauge(view, indent, conversation, context)
    about = []
    if context.headroom is not None:
        about.append(_headroom(context))
    if conversation.usage_peak is not None and conversation.usage_peak != conversation.usage_last:
        about.append(f"peak {number(conversation.usage_peak)}")
    if conversation.saved_by_restarting and last.call.record == "transcript":
        about.append(f"a fresh start saves {number(conversation.saved_by_restarting)} over these turns")
    yield from facts(
        about, view.width, indent, style if conversation.band in ("exceeded", "critical") else ""
    )
    found = ordered(view.found.get(conversation.id, ()))
    if found:
        yield line(" " * indent, Run(tally(found), STYLES[found[0].severity]))
    yield from facts(_small_print(conversation, last), view.width, indent, "dim")
    if view.verbose:
        yield from _turns(view, conversation, indent)


def _title(view: View, conversation: Conversation, step: int) -> Line:
    band = f"  {conversation.band:<{_INDENT - 4}}  "
    branch = " " * (step - 2) + "└ " if step else ""
    turns = view.length(conversation)
    call = view.last(conversation).call
    name = who(conversation) or ("unnamed service" if call.record == "span" else call.dialect)
    model = escape(some(conversation.models)) or "model unknown"
    end = f"  {mark(conversation)}"
    room = view.width - cells(band + branch + end) - cells(DOT + turns)
    model = clip(model, max(room // 2, room - cells(name) - cells(DOT)))
    name = clip(name, room - cells(model) - cells(DOT))
    start = f"{DOT}{model}{DOT}{turns}"
    gap = " " * (view.width - cells(band + branch + name + start + end))
    # No green beside an error: that the window has room is not all there is to say.
    style: Style = (
        "" if conversation.band == "ok" and conversation.id in view.found else BAND_STYLES[conversation.band]
    )
    return line(Run(band, style), branch, Run(name, "strong"), start, gap, Run(end, "dim"))


def _gauge(view: View, indent: int, conversation: Conversation, context: Context) -> Line:
    usage = conversation.usage_last
    if usage is None:
        failed = any(view.readings[call].context.usage is not None for call in conversation.calls)
        why = "known of failed calls only" if failed else "no usage reported, prompt not seen whole"
        return line(" " * indent, Run(f"depth unknown: {why}", "dim"))
    about = "" if context.usage_method == "exact" else "about "
    if not conversation.limit:
        return line(" " * indent, f"{about}{number(usage)} tokens in the window")
    share = usage / conversation.limit
    words = f" {percent(usage, conversation.limit):>4}  {about}{number(usage)} of {number(conversation.limit)} tokens"
    room = min(view.width - indent - cells(words), 40)
    gauge = bar(share, room, BAND_STYLES[conversation.band]) if room >= 8 else ()
    return line(" " * indent, *gauge, words)


def _headroom(context: Context) -> str:
    assert context.headroom is not None
    growth = context.growth
    if growth is None:
        pace = "growth unknown before 3 turns"
    else:
        pace = f"growing {number(round(growth))} a turn" if growth > 0 else "not growing"
    if context.headroom <= 0:
        return f"nothing left, {pace}"
    turns = f", {_turns_left(context.headroom_turns)}" if context.headroom_turns is not None else ""
    return f"{number(context.headroom)} left{turns}, {pace}"


def _turns_left(turns: float) -> str:
    return f"about {many(int(turns), 'turn')}" if turns >= 1 else "less than one turn"


def _small_print(conversation: Conversation, last: Reading) -> Iterator[str]:
    context = last.context
    if conversation.limit:
        told = _SOURCES.get(context.limit_source, "limit of unknown origin")
        yield told.replace("span", last.call.record)
        if context.reserve:
            yield f"{number(context.reserve)} reserved for the answer"
    else:
        model = escape(last.call.model) or "MODEL"
        yield f"limit unknown (--limit {model}=TOKENS)"
    if context.usage is not None and context.usage_method != "exact":
        yield "no usage reported: depth is our count"
    if conversation.joined:
        yield "joined: began before this input"
    if conversation.gaps:
        yield f"{many(conversation.gaps, 'gap')}: answers of no call here"


# ---- -v: turn by turn

_HEADER = ("turn", "start", "in", "cached", "out", "relation", "break")


def _turns(view: View, conversation: Conversation, indent: int) -> Iterator[Line]:
    yield line(" " * indent, Run(f"first call {escape(conversation.id)}", "dim"))
    rows = [_row(view.readings[call]) for call in conversation.calls]
    widths = [max(map(cells, column)) for column in zip(_HEADER, *rows, strict=True)]
    for i, row in enumerate((_HEADER, *rows)):
        parts = [
            text.ljust(w) if c == 1 or c > 4 else text.rjust(w)
            for c, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield line(" " * min(indent, 4), Run("  ".join(parts), "dim" if i == 0 else ""))


def _row(reading: Reading) -> tuple[str, ...]:
    call, usage = reading.call, reading.call.usage
    start = moment(call.start_unix_nano)
    relation = reading.relation + (" (gap)" if reading.gap else "")
    if call.status != "ok":
        relation += f", {call.status}"
    return (
        str(reading.turn),
        f"{start:%H:%M:%S}" if start else NOTHING,
        number(usage.input),
        number(usage.cache_read),
        number(usage.output),
        relation,
        escape(reading.break_.path) if reading.break_ else "",
    )
