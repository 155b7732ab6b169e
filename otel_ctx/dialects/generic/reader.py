"""A span -> what it seems to tell of a model call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import of_span, text
from otel_ctx.dialects.generic import names
from otel_ctx.dialects.generic.names import Kind
from otel_ctx.dialects.generic.prompt import (
    Prompt,
    are_definitions,
    best,
    best_definitions,
    best_system,
    best_tools,
    lengths,
    longest,
    prompt_of,
    size_of,
    without_answer,
)
from otel_ctx.dialects.generic.seen import Seen, listen, look
from otel_ctx.dialects.generic.usage import usage_of
from otel_ctx.dialects.generic.values import is_plain, opened, values
from otel_ctx.model import Raw, Reason, Span, Telling

_LONGEST_KIND = 128  # characters
_LONGEST_NAMES = 4096  # characters of all attributes' names; who has more is not one of many
# SDKs that refuse the newest attributes; others drop the oldest
_NEWEST_DROPPED = frozenset({"nodejs", "webjs"})
_SHORTEST_MESSAGE = '[{"role":"user"}]'
_OF_MESSAGES = frozenset({"finish_reason", "role", "name", "id", "type", "index"})  # and none of their words
_PLAIN_NAME = re.compile(r"[\w.:/\[\]-]{1,128}")


def read(span: Span) -> Telling | None:
    """What ``span`` seems to tell of a model call; None where it seems to tell of none."""
    a = span.attributes
    if not span.events and _say_nothing(a) and all(map(is_plain, a.values())):
        return None
    kind, says = _kind(span)
    if kind == "other":
        return None
    if kind == "sum":  # its messages are an excerpt or the whole story: they stay closed
        held = {k: v for k, v in span.attributes.items() if is_plain(v) or _is_of_all(names.words(k))}
        return _sum(span, look(values(held)), says)
    seen = look(values(span.attributes))
    listen(seen, span.events)
    usage, _ = usage_of(seen)
    model = seen.name("request") or seen.name("response")
    spoken = bool(seen.prompts or seen.answers)
    if kind == "call":
        is_call = usage is not None or spoken or "asked" in seen.texts or seen.masked
    elif names.is_no_call(model):
        return None
    else:
        is_call = (bool(model) and (usage is not None or spoken)) or (
            usage is not None and bool(seen.prompts)
        )
    if is_call:
        return _call(span, seen, kind, says)
    return _sum(span, seen, "") if usage is not None else None


def with_content(telling: Telling, span: Span) -> Telling:
    """``telling``, which has a call's figures and none of its messages, with the words that ``span`` seems to have under
    other names."""
    if not span.events and not any(_may_hold_words(k, v) for k, v in span.attributes.items()):
        return telling
    guess = read(span)
    if guess is None or guess.role != "call" or guess.messages is None:
        return telling
    told = {"tools"} if telling.tools is not None else set()
    return telling._replace(
        tools=telling.tools or guess.tools,
        system=telling.system or guess.system,
        messages=guess.messages,
        output=telling.output or guess.output,
        reserve=telling.reserve or guess.reserve,
        reasons=telling.reasons | (guess.reasons - {"schema_missing"} if told else guess.reasons),
        lost=guess.lost - told,
        guess=tuple(
            said for said in guess.guess if not said.startswith(("call:", "usage:", *(f"{t}:" for t in told)))
        ),
    )


def _may_hold_words(name: str, value: object) -> bool:
    """Most attributes beside a call's figures are names and numbers, and lists of them."""
    if isinstance(value, (list, tuple)):
        return any(
            not is_plain(item) or (isinstance(item, str) and len(item) > _LONGEST_KIND) for item in value
        )
    if not is_plain(value):
        return not isinstance(value, str) or len(value) > len(_SHORTEST_MESSAGE)
    if ".0." in name:
        return name.rpartition(".")[2] not in _OF_MESSAGES
    return isinstance(value, str) and len(value) > _LONGEST_KIND


def _say_nothing(names_: Iterable[str]) -> bool:
    """Most spans are of web servers and databases, which have the same attributes each time."""
    written = "\n".join(names_)
    return len(written) <= _LONGEST_NAMES and _say_nothing_in(written)


@lru_cache(maxsize=1024)
def _say_nothing_in(written: str) -> bool:
    return not any(
        names.says_something(w) or names.tells_kind(w) for w in map(names.words, written.split("\n"))
    )


def _kind(span: Span) -> tuple[Kind, str]:
    """The kind of operation that a span says it is, and the value that says it. Who says "tool" is not overruled, and who
    says "agent" is not by one who says "model"."""
    found: dict[Kind, list[tuple[str, str]]] = {}
    for key, value in span.attributes.items():
        if not isinstance(value, str) or len(value) > _LONGEST_KIND:
            continue
        path = names.words(key)
        if is_plain(value):
            if names.tells_kind(path):
                found.setdefault(names.kind_of(value), []).append((key, value))
            continue
        held, _ = opened(value)
        inside = held if isinstance(held, Mapping) else {"": held}
        for name, said in inside.items():
            if isinstance(said, str) and names.tells_kind((*path, *names.words(str(name)))):
                found.setdefault(names.kind_of(said), []).append((key, said))
    order: tuple[Kind, ...] = ("other", "sum", "call")
    for kind in order:
        if kind in found:
            return kind, min(found[kind])[0 if kind == "call" else 1]
    return ("other" if names.is_no_call(span.name) else ""), ""


def _is_of_all(name: names.Words) -> bool:
    """Tools and a system prompt that stand on an agent's span are those of the calls below."""
    return names.tells_tools(name) or names.tells_system(name)


def _sum(span: Span, seen: Seen, says: str) -> Telling | None:
    """A span that repeats or sums calls; None where it says nothing of them."""
    _, tools = best_definitions(seen.tools)
    _, system = longest(seen.systems)
    bare = bool(tools) and not are_definitions(tools)
    told = _who(span, seen, "aggregate")._replace(
        operation="invoke_agent" if "agent" in names.words(says) else "",
        tools=Raw("tools", tools) if tools else None,
        system=Raw("system", system) if system is not None else None,
        reasons=frozenset({"schema_missing"} if bare else ()),
        lost=frozenset({"tools"} if bare else ()),
    )
    known = (told.usage, told.tools, told.system, told.agent or None, told.conversation_hint or None)
    return told if any(v is not None for v in known) else None


def _who(span: Span, seen: Seen, role: Literal["call", "aggregate"]) -> Telling:
    return of_span(
        span,
        "generic",
        role,
        first_token_unix_nano=semconv.first_token(span),
        agent=seen.name("agent"),
        provider=seen.name("provider"),
        request_model=seen.name("request"),
        response_model=seen.name("response"),
        response_id=seen.name("id"),
        conversation_hint=seen.name("conversation"),
        usage=usage_of(seen)[0],
    )


def _call(span: Span, seen: Seen, kind: Kind, says: str) -> Telling:
    usage, where = usage_of(seen)
    evidence = [("usage", where)] if usage is not None else []
    told = _who(span, seen, "call")._replace(operation="chat", previous_response_id=seen.name("previous"))
    answer = max(seen.answers, key=size_of, default=[])
    prompt = best(seen.prompts)
    if kind == "call":  # plain text will do
        asked_of, asked = longest(seen.texts.get("asked", ()))
        _, answered = longest(seen.texts.get("answered", ()))
        if prompt is None and asked_of is not None:
            prompt = prompt_of([asked], asked_of, "asked")
        if not answer and answered is not None:
            answer = [{"role": "assistant", "content": answered}]
    missing: Reason = "attributes_dropped" if span.dropped_attributes else "not_captured"
    reasons: set[Reason] = {"guessed"}
    lost: set[str] = set()
    if usage is None and span.dropped_attributes:
        reasons.add(missing)
    if seen.masked or prompt is None:
        reasons.add("redacted" if seen.masked else missing)
        lost.update(("tools", "system", "messages"))
    else:
        messages, answer = without_answer(prompt, answer)
        tools_of, tools = best_tools(prompt, seen.tools)
        system_of, system = best_system(prompt, seen.systems, seen.prompts)
        found = [("messages", prompt.of), ("system", system_of), ("tools", tools_of)]
        evidence += [(section, of.name) for section, of in found if of is not None]
        told = told._replace(
            previous_response_id=told.previous_response_id
            or (prompt.body.previous_response_id if prompt.body else ""),
            reserve=(prompt.body.reserve if prompt.body else None) or seen.reserve,
            tools=Raw("tools", tools) if tools else None,
            system=Raw("system", system) if system is not None else None,
            messages=Raw("messages", messages) if messages else None,
        )
        _say_what_is_lost(span, seen, prompt, reasons, lost)
        cut = [section for section, of in found if of is not None and of.cut]
        if cut:
            reasons.add("value_cut")
            lost.update(cut)
        if not are_definitions(tools):
            reasons.add("attributes_dropped" if span.dropped_attributes else "schema_missing")
            lost.add("tools")
        if span.dropped_attributes and system is None and not prompt.has_system:
            reasons.add("attributes_dropped")
            lost.add("system")
    if told.previous_response_id:
        reasons.add("server_side")
        lost.add("head")
    return told._replace(
        output=Raw("messages", answer) if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
        guess=(
            f"call: {says or 'a model and its numbers or words'}",
            *(f"{what}: {_shown(of)}" for what, of in evidence),
        ),
    )


def _shown(name: str) -> str:
    """The name of an attribute; what has not the form of one may be a text that strayed."""
    return name if _PLAIN_NAME.fullmatch(name) else "(attribute)"


def _say_what_is_lost(span: Span, seen: Seen, prompt: Prompt, reasons: set[Reason], lost: set[str]) -> None:
    of = prompt.of
    if of.cut or (of.flat and not seen.cuts.isdisjoint(lengths(prompt.messages))):
        reasons.add("value_cut")
        lost.update(("messages",) if prompt.has_system else ("messages", "system"))
    if None in prompt.messages[of.start :]:
        reasons.add("attributes_dropped" if span.dropped_attributes else "not_captured")
        lost.add("messages")
    if not of.flat or not span.dropped_attributes:
        return
    if text(span.resource, "telemetry.sdk.language") in _NEWEST_DROPPED or not seen.answers:
        reasons.add("attributes_dropped")
        lost.add("messages")
    if of.start or of.headless:
        reasons.add("attributes_dropped")
        lost.add("head")
