"""A log record of an event that nobody knows -> the content that it seems to hold of its span's call."""

from __future__ import annotations

from itertools import chain
from typing import Any

from otel_ctx.dialects.fields import of_record
from otel_ctx.dialects.generic import names
from otel_ctx.dialects.generic.prompt import best, best_system, best_tools, size_of, without_answer
from otel_ctx.dialects.generic.seen import look
from otel_ctx.dialects.generic.values import is_plain, values
from otel_ctx.model import LogRecord, Raw, Reason, Telling


def read_log(record: LogRecord) -> Telling | None:
    """Messages, or a body of a provider's API, in the record's body or attributes; None where none is there.

    Only of an event, which has a name, and names its span: what stands on a span of a model's call belongs to that call,
    and lines of a log are none."""
    if (
        not record.name
        or not record.span_id
        or (is_plain(record.body) and all(map(is_plain, record.attributes.values())))
    ):
        return None
    within = names.words(record.name)
    seen = look(chain(values(record.attributes, within), values({"body": record.body}, within)))
    prompt, answer = best(seen.prompts), max(seen.answers, key=size_of, default=[])
    if prompt is None and not answer:
        return None
    reasons: set[Reason] = {"guessed"}
    lost: set[str] = set()
    told: dict[str, Any] = {}
    if prompt is not None:
        messages = prompt.messages
        if len(messages) > 1:  # one alone is a message of the history, whoever said it
            messages, answer = without_answer(prompt, answer)
        tools_of, tools = best_tools(prompt, seen.tools)
        system_of, system = best_system(prompt, seen.systems, seen.prompts)
        cut = {
            section
            for section, of in (("messages", prompt.of), ("tools", tools_of), ("system", system_of))
            if of is not None and of.cut
        }
        if cut:
            reasons.add("value_cut")
        if not tools:
            reasons.add("schema_missing")
        lost = cut | ({"tools"} if not tools else set())
        told = {
            "tools": Raw("tools", tools) if tools else None,
            "system": Raw("system", system) if system is not None else None,
            "messages": Raw("messages", messages) if messages else None,
        }
    return of_record(
        record,
        "generic",
        output=Raw("messages", answer) if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
        **told,
    )
