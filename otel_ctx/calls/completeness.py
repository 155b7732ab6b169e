"""How much of a prompt was seen, and why not all of it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from otel_ctx.model import (
    KIND_INDEX,
    MODEL_KINDS,
    Chain,
    Completeness,
    Prompt,
    Reason,
    Status,
    Usage,
)
from otel_ctx.tokens.unseen import AROUND_EACH, SHARE_OF_TOOLS

_TOOL_CALL, _TOOL_RESULT = KIND_INDEX["tool_call"], KIND_INDEX["tool_result"]
_OF_MODEL = tuple(KIND_INDEX[kind] for kind in MODEL_KINDS)
_GAP_TOKENS, _GAP_A_MESSAGE = 16, 4  # framing: the smallest tool takes more than this leaves
_FAR_TOKENS = 400
_FAR_SHARE = 0.4  # of the reported input that no text accounts for, where counts are estimates
_FAR_EXACT = 0.15  # the same where they are exact: hidden instructions and framing are a few per cent
_ORDER: tuple[Reason, ...] = (
    "attributes_dropped", "value_cut", "message_cut", "redacted", "not_captured", "logs_missing", "reference_missing",
    "server_side", "media_placeholder", "aggregate_only", "schema_missing", "unparsable", "guessed", "late",
)  # fmt: skip

_one = lru_cache(256)(Completeness)
"""There are few different ones, and every call that is remembered has one."""


def completeness_of(
    prompt: Prompt,
    usage: Usage,
    reasons: frozenset[Reason],
    lost: frozenset[str],
    *,
    stateful: bool,
    remembers: bool,
    tools_told: bool,
) -> Completeness:
    """What of the prompt was seen. Text far below the reported tokens is a prompt that was not seen whole.
    ``stateful``: the call names a response before it; ``remembers``: its API may keep
    histories, and no request was seen that would name one; ``tools_told``: a telling speaks of tools, be it that there are
    none."""
    why, gone = set(reasons), set(lost)
    chain = prompt.messages
    if chain.length == chain.unmeasured:
        if chain.length == 0 and not why & {
            "redacted",
            "reference_missing",
            "unparsable",
            "logs_missing",
            "attributes_dropped",
            "value_cut",
        }:
            why.add("not_captured")
        if chain.length and not why:
            why.add("media_placeholder")
        status: Status = "usage_only" if usage.input is not None or usage.output is not None else "none"
        gone.update(name for name in ("tools", "system") if not getattr(prompt, name))
        return _one(status, _ordered(why), frozenset(gone | {"messages"}))
    missing = (usage.input or 0) - prompt.counted
    exact = prompt.exact and not chain.unmeasured
    no_room = exact and usage.input is not None and missing <= _GAP_TOKENS + _GAP_A_MESSAGE * chain.messages
    tooled = bool(chain.tokens_by_kind[_TOOL_CALL] or chain.tokens_by_kind[_TOOL_RESULT])
    if prompt.tools:
        pass  # what a telling that has tools says of them stands: their schemas may be missing
    elif "tools" in gone or (tooled and not tools_told and not no_room):  # what was called was defined
        gone.add("tools")
        if not tooled and no_room:
            gone.discard("tools")  # the numbers leave no room for tools
            why.discard("schema_missing")
        elif not why & {"attributes_dropped", "value_cut", "redacted", "reference_missing", "unparsable"}:
            why.add("schema_missing")
    else:
        gone.discard("tools")
        why.discard("schema_missing")
    if has_hole(chain):
        why.add("not_captured")
        gone.add("messages")
    short = (
        usage.input is not None
        and not chain.unmeasured
        and missing > (_FAR_EXACT if exact else _FAR_SHARE) * usage.input
        and not _may_stand_around(prompt, missing)
    )
    known = why - {"guessed"}  # a guess is no reason why something should be missing
    if stateful or "server_side" in why or (not gone and not known and _answers_unseen(chain)):
        why.add("server_side")
        gone.add("head")
    elif (
        short
        and not known - {"schema_missing"}
        and not (known and missing <= _FAR_SHARE * (usage.input or 0))
    ):
        sent_whole = _carries_answers(chain)
        why.add("server_side" if remembers and not sent_whole else "not_captured")
        gone.add("head" if remembers or sent_whole else "messages")
    if chain.unmeasured and any(s.kind in ("image", "file") and s.bytes <= 0 for s in chain):
        why.add("media_placeholder")
    hidden = why - {"media_placeholder", "guessed", "late"}
    return _one("partial" if hidden or gone else "full", _ordered(why), frozenset(gone))


def _may_stand_around(prompt: Prompt, tokens: int) -> bool:
    """Could as many stand around the texts of a prompt that was seen whole, and in none of them?"""
    rest = tokens - AROUND_EACH * (prompt.messages.length + len(prompt.tools) + len(prompt.system))
    rest -= _FAR_TOKENS
    return rest <= 0 or rest <= round(SHARE_OF_TOOLS * sum(s.tokens or 0 for s in prompt.tools))


def accounted_for(prompt: Prompt, usage: Usage) -> bool:
    """Do the tokens of what was seen add up to those that the provider reports?"""
    if usage.input is None:
        return False
    missing = usage.input - prompt.counted
    if not prompt.exact:
        return missing <= 0
    return missing <= _GAP_TOKENS + _GAP_A_MESSAGE * prompt.messages.messages


def with_cut(seen: Completeness, sections: frozenset[str], *, stateful: bool) -> Completeness:
    """``seen`` of a call whose texts of these sections were cut at a limit, which then is why tokens are missing.
    ``stateful``: it says itself that there is a history on the server."""
    why, gone = set(seen.reasons), set(seen.lost)
    if not stateful and seen.reasons in (("not_captured",), ("server_side",)):
        why = set()
        gone.discard("head")
    return _one("partial", _ordered(why | {"value_cut"}), frozenset(gone | sections))


def without_tools(seen: Completeness) -> Completeness:
    """``seen`` of a call of whose tools attributes were dropped."""
    why: set[Reason] = {"attributes_dropped", *seen.reasons}
    return _one("partial", _ordered(why), seen.lost | {"tools"})


def without_server(seen: Completeness) -> Completeness:
    """``seen``, where nothing but missing tokens spoke of a history on the server."""
    why: set[Reason] = {"not_captured", *seen.reasons}
    return replace(seen, reasons=_ordered(why - {"server_side"}))


_STATELESS_IDS = ("chatcmpl-", "msg_")  # of responses of Chat Completions and of Anthropic's Messages
_STATELESS = frozenset({"anthropic", "google", "bedrock"})  # what is served by these alone


def may_remember(response_id: str, provider: str) -> bool:
    """Can the API that was called keep the history on its server? The id of its response tells which API it was."""
    if response_id:
        return not response_id.startswith(_STATELESS_IDS)
    return provider not in _STATELESS


def has_hole(chain: Chain) -> bool:
    """A message is missing: results of tool calls are there and not the calls themselves, or calls of which one alone has
    no result."""
    return chain.awaited.hole or _calls_unseen(chain)


def _calls_unseen(chain: Chain) -> bool:
    by_kind = chain.tokens_by_kind
    return bool(by_kind[_TOOL_RESULT] and not by_kind[_TOOL_CALL] and not _answers_unseen(chain))


def _answers_unseen(chain: Chain) -> bool:
    """The first message is the result of a tool call that is not there: the history lies on the server."""
    return chain.first is not None and chain.first.kind == "tool_result"


def _carries_answers(chain: Chain) -> bool:
    """The prompt holds answers of the model: the application sends its history itself."""
    by_kind = chain.tokens_by_kind
    return any(by_kind[k] for k in _OF_MODEL)


def _ordered(reasons: set[Reason]) -> tuple[Reason, ...]:
    return tuple(r for r in _ORDER if r in reasons) if reasons else ()
