"""The request and the answer in a record of a log: found by the names they are kept under, else by their shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from otel_ctx.inputs.jsontext import FLAWS, TWICE, flaw_of
from otel_ctx.parts import breaks_off, is_message, mapping, stream_events, structure
from otel_ctx.rules import load

_SAY_REQUEST = frozenset(
    (
        "params", "request", "request_body", "requestBody", "req", "req_body", "reqBody", "json_data", "kwargs",
        "inputBodyJson",
    )
)  # fmt: skip  # what lies under these is none of another kind
_REQUESTS = (
    "body", "params", "request", "request_body", "requestBody", "req", "req_body", "reqBody", "inputBodyJson", "input",
    "payload", "data", "json", "json_data", "kwargs",
)  # fmt: skip
_ANSWERS = (
    "response", "response_body", "responseBody", "resp", "resp_body", "respBody", "res", "res_body", "outputBodyJson",
    "result", "output", "answer", "reply", "completion", "body", "message",
)  # fmt: skip
_USAGES = ("usage", "usageMetadata", "usage_metadata")
_URLS = ("url", "path", "endpoint", "uri", "request_url")
_PARAMETERS = frozenset(  # that no other kind of record has beside messages or a text
    (
        "max_tokens", "max_output_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "stream",
        "stream_options", "stop_sequences", "instructions", "system", "tool_choice", "thinking", "reasoning",
        "reasoning_effort", "response_format", "previous_response_id", "prompt_cache_key", "prompt_cache_retention",
        "service_tier", "truncation", "logprobs", "presence_penalty", "frequency_penalty", "anthropic_version",
        "anthropic_beta", "cache_control", "modelId", "inferenceConfig", "toolConfig", "additionalModelRequestFields",
        "systemInstruction", "system_instruction", "generationConfig", "generation_config", "safetySettings",
        "cachedContent", "cached_content", "config",
    )
)  # fmt: skip
_TOOLS = frozenset(("tools", "functions", "parallel_tool_calls"))  # examples for fine-tuning have them too
_GEMINI_ROLES = frozenset(("user", "model", "function"))
_NO_CHAT_MODEL = re.compile(r"embed|moderation|rerank", re.IGNORECASE)
_BEGINS_AS_ANSWER = re.compile(  # a model may be cut off while it writes JSON of its own
    r"\s*\[?\s*\{\s*\"(?:id|object|model|created|created_at|choices|candidates|output|usage|usageMetadata|responseId|modelVersion"
    r"|status_code|statusCode|error|type\"\s*:\s*\"(?:message|message_start|error|response\.created))\""
)
_OF_A_MODEL = re.compile(r"\"(?:choices|candidates|(?:prompt|input)_tokens|chat\.completion|usageMetadata)\"")
_BEGINS_AS_REQUEST = re.compile(
    r"\s*\{(?!\s*\"(?:id|object|type|created|choices|candidates|usage)\").*\"(?:messages|contents|input|prompt|model)\"\s*:",
    re.DOTALL,
)
_BEGINS_AS_EVENT = re.compile(r"\{\s*\"")
_NESTED = 4  # envelopes inside envelopes

Json = Mapping[str, Any]


DAMAGED_ANSWER = "its answer is damaged: JSON or an event that was cut or is broken"


class UnusableError(ValueError):
    """Says why a record holds no request; never what it holds."""


class Found(NamedTuple):
    """``around``: what the request lay in, the innermost first, itself where it is bare; ``damaged``: an answer is there that
    cannot be read, or not to its end."""

    body: Json | None
    around: list[Json]
    answer: Any
    status: int | None
    damaged: bool


def find(record: Json, *, told: bool = False) -> Found:
    """Raises ``UnusableError`` where there is neither a request nor an answer; not where something else has ``told`` of one."""
    bodies = _bodies(record)
    if len(bodies) > 1:
        raise UnusableError("two request bodies in one record: it is not clear which was sent")
    body, around = bodies[0] if bodies else (None, [record])
    if body is None and has_damaged_request(record):
        raise UnusableError("its request is damaged: JSON that was cut or is broken")
    check("its request", *(level.get(key) for level in around for key in _REQUESTS))
    check("its answer", *(level.get(key) for level in around for key in _ANSWERS), known=frozenset((TWICE,)))
    answer, status, damaged = _answer(around, body)
    if body is None and answer is None and not told:
        if damaged:
            raise UnusableError(DAMAGED_ANSWER)
        raise UnusableError(
            "messages without a model or anything else of a request"
            if _has_messages(record)
            else "no request body of a known shape"
        )
    return Found(body, around, answer, status, damaged)


def holds_request(record: Json) -> bool:
    return bool(_bodies(record))


def holds_answer(record: Json, *, surely: bool = False) -> bool:
    """``surely``: it has the shape of a provider's."""
    answer = _answer([record], None)[0]
    if surely:
        return any(map(_is_surely_answer, answer if isinstance(answer, list) else [answer]))
    return answer is not None


def has_damaged_request(record: Json) -> bool:
    """Is a request there as JSON in a string that was cut or broken?"""
    said = (record.get(key) for key in _REQUESTS)
    return any(isinstance(v, str) and _is_damaged(v, _BEGINS_AS_REQUEST) for v in said)


def has_damaged_answer(record: Json) -> bool:
    """The same of the answer of a model, where no request is."""
    within = (record.get("response"), mapping(record.get("response")).get("body"))
    return any(isinstance(v, str) and _is_damaged(v) and _OF_A_MODEL.search(v) for v in within)


def check(what: str, *values: Any, known: frozenset[str] = FLAWS) -> None:
    """Raises ``UnusableError`` where one that is JSON in a string is ambiguous."""
    written = (v for v in values if isinstance(v, str) and v.lstrip()[:1] in ("{", "["))
    if flaw := next((flaw for v in written if (flaw := flaw_of(v)) in known), ""):
        raise UnusableError(f"{what} is {flaw}")


# ---- the request


def _bodies(record: Json) -> list[tuple[Json, list[Json]]]:
    """The request bodies of a record, each with what it lay in. Equal ones are one."""
    found: list[tuple[Json, list[Json]]] = []
    for body, around, said in _candidates(record, _NESTED, False):
        if (said or _is_evident(body, around)) and all(body != known for known, _ in found):
            found.append((body, around))
    return found


def _candidates(record: Json, depth: int, said: bool) -> Iterator[tuple[Json, list[Json], bool]]:
    """``said``: the name that it is kept under says that it is a request."""
    if _is_body(record):
        yield record, [record], said
    for key in filter(record.__contains__, _REQUESTS) if depth else ():
        inner = _opened(record[key])
        if isinstance(inner, Mapping) and inner is not record:
            for body, around, says in _candidates(inner, depth - 1, said or key in _SAY_REQUEST):
                yield body, [*around, record], says


def _is_body(value: Json) -> bool:
    """Has the value what a request must have? Answers have messages too, but not in these places."""
    messages = value.get("messages")
    if isinstance(messages, list):
        return any(map(is_message, messages))
    contents = value.get("contents")
    if isinstance(contents, (list, Mapping)):
        first = contents[0] if isinstance(contents, list) and contents else contents
        return isinstance(first, Mapping) and isinstance(first.get("parts"), (list, Mapping))
    if value.get("object") == "response" or not isinstance(value.get("model"), str):
        return False  # the answer of the Responses API repeats the request's parameters
    given = value.get("input")
    if isinstance(given, list):
        items = [item for item in given if isinstance(item, Mapping)]
        return not items or any("role" in item or "type" in item for item in items)
    return isinstance(given, str) or (isinstance(value.get("prompt"), (str, dict)) and "choices" not in value)


def _is_evident(body: Json, around: list[Json]) -> bool:
    """Is it a request, and nothing else that has these names? Messages are exported and trained with, contents are those
    of a book, and any product has a model: something has to speak of a request, or of its answer."""
    return (
        not body.keys().isdisjoint(_PARAMETERS)
        or _speaks_of_a_request(body, around)
        or _is_told_of(body, around)
    )


def _speaks_of_a_request(body: Json, around: list[Json]) -> bool:
    messages, contents = body.get("messages"), body.get("contents")
    named, tools = isinstance(body.get("model"), str), not body.keys().isdisjoint(_TOOLS)
    if isinstance(messages, list):
        last = mapping(messages[-1])  # of an example for fine-tuning the model's
        return named or len(around) > 1 or (tools and last.get("role") != "assistant")
    if contents is not None:
        items = contents if isinstance(contents, list) else [contents]
        return named or tools or any(mapping(c).get("role") in _GEMINI_ROLES for c in items)
    given = body.get("input") or body.get("prompt")
    if isinstance(given, list) and (not isinstance(given[0], Mapping) or any(map(is_message, given))):
        return True
    return isinstance(given, Mapping) or tools or _is_known_model(str(body["model"]))


def _is_told_of(body: Json, around: list[Json]) -> bool:
    """Is an address, a usage or an answer beside it?"""
    if any(isinstance(level.get(key), str) and level[key] for level in around for key in _URLS):
        return True
    return any(map(usage_in, around)) or _answer(around, body)[0] is not None


def _is_known_model(model: str) -> bool:
    rules = load()
    return bool(_NO_CHAT_MODEL.search(model) or rules.provider_of("", model) or rules.encoding_of(model))


def _has_messages(record: Json) -> bool:
    return isinstance(record.get("messages"), list) or is_message(record)


# ---- the answer


def _answer(around: list[Json], body: Json | None) -> tuple[Any, int | None, bool]:
    """The answer's body and the HTTP status, as far as the record has them, the nearest to the request; and whether the
    answer is damaged."""
    status, damaged = None, False
    for level in around:
        answer, code, broken = _named(level, body)
        if answer is None and not broken:
            answer = _by_shape(level, body)
        status = status if status is not None else code
        damaged = damaged or broken
        if answer is not None:
            return answer, status, damaged
    return None, status, damaged


def _named(level: Json, body: Json | None) -> tuple[Any, int | None, bool]:
    status, damaged = status_of(level), False
    for key in _ANSWERS:
        value = _opened(level.get(key))
        if value is None or value is body:
            continue
        if isinstance(value, Mapping):
            value, inner, broken = _unwrapped(value, _NESTED)
            status = status if status is not None else inner
            damaged = damaged or broken
            if value is None or value is body or _is_body(value):
                continue
        elif isinstance(value, str):
            events = _streamed(value)
            cut = any(isinstance(event, str) and _BEGINS_AS_EVENT.match(event) for event in events)
            damaged = damaged or cut or breaks_off(events) or _is_damaged(value)
            if not any(isinstance(event, Mapping) for event in events):
                continue
            value = events
        elif not isinstance(value, list) or key == "body":
            continue
        return value, status, damaged
    return None, status, damaged


def _by_shape(level: Json, body: Json | None) -> Any:
    """An answer under whatever name, where there is but one."""
    found: list[Any] = []
    for value in map(_opened, level.values()):
        if isinstance(value, Mapping) and value is not body:
            answer = _unwrapped(value, _NESTED)[0]
            if answer is not None and answer is not body and _is_surely_answer(answer):
                found.append(answer)
        elif isinstance(value, str) and any(isinstance(event, Mapping) for event in _streamed(value)):
            found.append(_streamed(value))
    return found[0] if len(found) == 1 else None


def _unwrapped(value: Json, depth: int) -> tuple[Json | None, int | None, bool]:
    """An answer out of what batches and gateways put round it: ``{"status_code", "body"}``, ``{"type", "message"}``."""
    status, damaged = status_of(value), False
    if _is_answer(value):
        return value, status, False
    for key in _ANSWERS if depth else ():
        inner = _opened(value.get(key))
        if isinstance(inner, Mapping):
            found, code, broken = _unwrapped(inner, depth - 1)
            damaged = damaged or broken
            if found is not None:
                return found, status if status is not None else code, damaged
        elif isinstance(inner, str):
            damaged = damaged or _is_damaged(inner)
    return (value if value.get("error") or usage_in(value) is not None else None), status, damaged


def _is_answer(value: Json) -> bool:
    return (
        any(isinstance(value.get(key), list) for key in ("choices", "candidates", "content", "output"))
        or isinstance(mapping(value.get("output")).get("message"), Mapping)
        or (isinstance(value.get("usage"), Mapping) and isinstance(value.get("id"), str))
    )


def _is_surely_answer(value: Any) -> bool:
    """Would it be one under any name?"""
    if not isinstance(value, Mapping) or _is_body(value):
        return False
    choices = value.get("choices", value.get("candidates"))
    if isinstance(choices, list) and choices and all(isinstance(c, Mapping) for c in choices):
        return True
    if isinstance(mapping(value.get("output")).get("message"), Mapping):
        return True
    ended = usage_in(value) is not None or "stop_reason" in value or value.get("object") == "response"
    return ended and any(isinstance(value.get(key), list) for key in ("content", "output"))


def _streamed(value: str) -> list[Any]:
    """The events of an answer as it was sent, with the text of those that are no JSON."""
    return stream_events(value) if "data:" in value[:1024] else []


def _is_damaged(value: str, begins: re.Pattern[str] = _BEGINS_AS_ANSWER) -> bool:
    """Text that begins as a body in JSON does, and is no JSON."""
    return begins.match(value) is not None and isinstance(structure(value), str)


def status_of(value: Json) -> int | None:
    for key in ("status_code", "statusCode", "status"):
        code = value.get(key)
        if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600:
            return code
    return None


# ---- values


def usage_in(value: Json) -> Any:
    return next((value[name] for name in _USAGES if isinstance(value.get(name), Mapping)), None)


def url_in(around: list[Json]) -> str | None:
    return text_in(around, _URLS)


def text_in(around: list[Json], names: tuple[str, ...]) -> str | None:
    return next(
        (v for level in around for name in names if isinstance(v := level.get(name), str) and v), None
    )


def _opened(value: Any) -> Any:
    """What a string of JSON holds, and of JSON in which that string is one again."""
    if isinstance(value, str) and value.lstrip()[:2] in ('"{', '"['):
        inner = structure(f"[{value}]")
        value = inner[0] if isinstance(inner, list) and len(inner) == 1 else value
    return structure(value)
