"""Records of LiteLLM's callbacks and of its table of spend: the request lies in pieces, or whole in one of them.

Source: litellm 1.110.2, StandardLoggingPayload and spend_tracking_utils.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.inputs.exchanges import Plain
from otel_ctx.parts import compact, mapping, structure

_WHOLE = "proxy_server_request"
_PARAMETERS = "model_parameters"
_SECTIONS = {
    "tools": ("tools", "functions"),
    "system": ("system", "instructions"),
    "messages": ("messages", "input", "contents"),
}
_CUT = re.compile(r"\(litellm_truncated (?:skipped )?\d+ chars")  # of each long string its middle


def plain(record: Mapping[str, Any]) -> Plain | None:
    """``record`` as one of a request; None where it is none of LiteLLM's."""
    if "call_type" not in record or not record.keys() & {_WHOLE, _PARAMETERS}:
        return None
    whole = mapping(structure(record.get(_WHOLE)))
    whole = mapping(structure(whole.get("body"))) or whole
    sent = {**whole} if any(whole.get(name) for name in _SECTIONS["messages"]) else _pieces(record)
    # in what was sent to the proxy it may be an alias
    sent["model"] = record.get("model") or sent.get("model")
    cut = [
        section
        for section, names in _SECTIONS.items()
        if any(name in sent and _CUT.search(compact(sent[name])) for name in names)
    ]
    rest = {name: value for name, value in record.items() if name not in ("messages", _WHOLE, _PARAMETERS)}
    own = {
        "provider": record.get("custom_llm_provider") or record.get("provider"),
        "request": sent,
        "usage": _usage(record),
        "error": _error(record),
    }
    written = tuple(map(record.get, (_WHOLE, "messages", _PARAMETERS)))
    return Plain({**rest, **own}, {"lost": cut, "reasons": ["value_cut"]} if cut else {}, written=written)


def _pieces(record: Mapping[str, Any]) -> dict[str, Any]:
    messages = "input" if "responses" in str(record["call_type"]) else "messages"
    return {
        **mapping(structure(record.get(_PARAMETERS))),
        messages: structure(record.get("messages")),
    }


def _usage(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Of an answer that was not kept. LiteLLM makes every provider's input one that includes the cached tokens."""
    whole = mapping(mapping(structure(record.get("metadata"))).get("usage_object"))
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    return whole or ({name: record.get(name) for name in counts} if record.get("prompt_tokens") else None)


def _error(record: Mapping[str, Any]) -> Any:
    if record.get("status") != "failure":
        return record.get("error")
    told = mapping(structure(record.get("error_information")))
    return {"type": told.get("error_class"), "message": record.get("error_str") or told.get("error_message")}
