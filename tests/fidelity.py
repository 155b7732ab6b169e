"""How faithful is a report to what went over the wire?

The report (schema otelctx.report/1, with texts) is laid beside the provider's own log of the same session, request by
request. What an instrumentation left out cannot be reported, so each piece of a prompt and each number of its usage is
first looked for in the dump: only what the dump still holds must be in the report. Whatever else is there is an
invention.

A record of the log: ``api``, ``start_unix_nano``, ``end_unix_nano``, ``body`` (as sent), ``response`` (its id) and
``usage``.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

CORPUS = Path(__file__).parent / "corpus"
# Each case that has the provider's log is read as a whole; a new one needs no more than its folder.
CASES = tuple(sorted(p.parent.name for p in CORPUS.glob("*/requests.jsonl.gz")))

USAGE = ("input", "cache_read", "cache_write", "output")
# characters from which a text is found inside another one; a shorter one may stand there by chance
_LONG = 40


def lines(path: Path) -> list[dict[str, Any]]:
    """The values of a .jsonl.gz; none where there is no such file."""
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def wire_of(case: str) -> list[dict[str, Any]]:
    """The requests that got an answer, the first sent first. An item that a request only names, of an answer before
    that the log has, is put in its place: the model reads it all the same."""
    answered = [r for r in lines(CORPUS / case / "requests.jsonl.gz") if r["api"] in _READERS]
    answered.sort(key=lambda r: r["start_unix_nano"])
    items: dict[str, Json] = {}
    for request in answered:
        body = request["body"]
        if isinstance(body.get("input"), list):
            named = [i["id"] if i.get("type") == "item_reference" else None for i in body["input"]]
            body["input"] = [items.get(n or "", i) for n, i in zip(named, body["input"], strict=True)]
        items |= {i["id"]: i for i in (request["response"] or {}).get("output") or () if "id" in i}
    return answered


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a prompt as both sides can write it. JSON is compared by its values: libraries parse and write it
    anew. Media and reasoning have no content: they are references or signed, so only their place counts."""

    kind: str
    content: str = ""
    raw: str = field(default="", compare=False)  # as it was written


@dataclass(frozen=True)
class Difference:
    """What is wrong with one call; all empty where nothing is."""

    lost: tuple[Piece, ...] = ()  # the dump holds it, the report does not
    invented: tuple[Piece, ...] = ()  # the report has it, the wire did not
    disordered: bool = False  # the same pieces, not in the order of the wire
    overstated: tuple[Piece, ...] = ()  # not in the report, although it says that it saw the prompt whole
    usage: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.lost, self.invented, self.disordered, self.overstated, self.usage))


@dataclass(frozen=True)
class Case:
    """One session: the dump's export requests, the provider's log, and the report on the dump."""

    traces: Sequence[Json]
    logs: Sequence[Json]
    wire: Sequence[Json]
    report: Json


def compare(case: Case) -> dict[int, Difference]:
    """The requests (by number, from 1) that the report does not tell as they were."""
    segments = report_segments(case.report)
    found = list(_holdings(case.traces, case.logs))
    wrong = {}
    for n, (request, call) in enumerate(pair(case.wire, case.report["calls"]), 1):
        if call is None:
            wrong[n] = Difference(lost=tuple(wire_pieces(request)), usage=("no call",))
            continue
        near = _near(request, found)
        whole = call["completeness"]["status"] == "full"
        difference = _prompt(list(wire_pieces(request)), segments[call["id"]], near, whole=whole)
        usage = tuple(_usage(request, call["usage"], near))
        if difference or usage:
            wrong[n] = Difference(
                difference.lost, difference.invented, difference.disordered, difference.overstated, usage
            )
    return wrong


def held(case: Case) -> int:
    """How many pieces of the prompts that were sent the dump still holds."""
    found = list(_holdings(case.traces, case.logs))
    near = ((request, _near(request, found)) for request in case.wire)
    return sum(bool(records.count(piece)) for request, records in near for piece in wire_pieces(request))


def pair(wire: Sequence[Json], calls: Sequence[Json]) -> Iterator[tuple[Json, Json | None]]:
    """Each request with the call that tells of it: by the response's id, else the shortest call that was open then."""
    by_response = {c["response_id"]: c for c in calls if c["response_id"]}
    free = {c["id"]: c for c in calls}
    for request in wire:
        call = by_response.get(response_id(request))
        if call is None:
            open_then = [c for c in free.values() if _overlaps(c, request)]
            call = min(open_then, key=lambda c: c["end_unix_nano"] - c["start_unix_nano"], default=None)
        if call is not None:
            free.pop(call["id"], None)
        yield request, call


def response_id(request: Json) -> str | None:
    response = request["response"] or {}
    return response.get("id") or response.get("responseId")


def _overlaps(call: Json, request: Json) -> bool:
    millisecond = 1_000_000  # as coarse as some libraries' clocks
    return bool(
        call["start_unix_nano"] <= request["start_unix_nano"] + millisecond
        and call["end_unix_nano"] >= request["start_unix_nano"]
    )


# ---- prompts


def _prompt(wire: list[Piece], told: list[Piece], near: _Holding, *, whole: bool) -> Difference:
    missing = Counter(wire) - Counter(told)
    extra = Counter(told) - Counter(wire)
    origins = Counter(missing)
    for piece in list(extra):  # the beginning of what was cut on its way is no invention
        origin = next((p for p in +origins if _is_cut(piece, p)), None)
        if origin is not None:
            explained = min(extra[piece], origins[origin])
            extra[piece] -= explained
            origins[origin] -= explained
    sent = Counter(wire)
    lost = [p for p, n in missing.items() if near.count(p) > sent[p] - n]
    return Difference(
        lost=tuple(lost),
        invented=tuple(+extra),
        disordered=not _in_order([p for p in told if p in wire], wire),
        overstated=tuple(missing) if whole else (),
    )


def _is_cut(piece: Piece, original: Piece) -> bool:
    text = (piece.raw or piece.content).rstrip(".… ")
    return (
        piece.kind == original.kind and len(text) >= 8 and (original.raw or original.content).startswith(text)
    )


def _in_order(some: Iterable[Piece], every: Iterable[Piece]) -> bool:
    rest = iter(every)
    return all(piece in rest for piece in some)


def report_segments(report: Json) -> dict[str, list[Piece]]:
    """Each call's whole prompt by call id: what it shares with the call that it continues, and then what is new."""
    written: dict[str, list[Json]] = {}
    for call in report["calls"]:
        segments = call["segments"]
        shared = written[segments["from"]][: segments["same"]] if segments["from"] else []
        written[call["id"]] = [*shared, *segments["new"]]
    return {id_: [_told(s) for s in segments] for id_, segments in written.items()}


def _told(segment: Json) -> Piece:
    kind, text = segment["kind"], segment["text"] or ""
    if kind == "tools":
        return _tool(segment["name"] or "", _description(text))
    if kind == "tool_call":
        return Piece(kind, (segment["name"] or "") + canonical(text or "{}"))
    if kind == "tool_result":
        return _result(text)
    return Piece(kind) if kind in ("image", "file", "thinking") else Piece(kind, text)


def _result(text: str) -> Piece:
    return Piece("tool_result", canonical(text), text)


def _tool(name: str, description: str) -> Piece:
    return Piece("tools", f"{name}: {description}" if description else name)


def _description(definition: str) -> str:
    try:
        value = json.loads(definition)
    except ValueError:
        return ""
    for key in ("function", "toolSpec", "custom"):
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value = value[key]
    return str(value.get("description") or "") if isinstance(value, dict) else ""


def canonical(value: Any) -> str:
    """JSON, parsed or not, in one form; any other text as it is."""
    if isinstance(value, str):
        if value[:1] not in ("{", "["):
            return value
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# ---- the wire, one reader an API. All write tools first, then the system prompt, then the messages.


def wire_pieces(request: Json) -> Iterator[Piece]:
    return _READERS[request["api"]](request["body"])


def _chat(body: Json) -> Iterator[Piece]:
    yield from _tools(t.get("function") or t for t in body.get("tools") or ())
    for message in body["messages"]:
        if message["role"] in ("tool", "function"):
            yield from _results(message.get("content"))
            continue
        yield from _blocks(_role(message["role"]), message.get("content"))
        for call in message.get("tool_calls") or ():
            yield Piece("tool_call", call["function"]["name"] + canonical(call["function"]["arguments"]))


def _responses(body: Json) -> Iterator[Piece]:
    yield from _tools(body.get("tools") or ())
    yield from _blocks("system", body.get("instructions"))
    items = body.get("input") or ()
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        match item.get("type", "message"):
            case "function_call":
                yield Piece("tool_call", item["name"] + canonical(item["arguments"]))
            case "function_call_output":
                yield _result(item["output"])
            case "reasoning":
                yield Piece("thinking")
            case "message":
                yield from _blocks(_role(item["role"]), item["content"])
            case "item_reference":
                pass  # the provider has the content
            case other:
                raise ValueError(f"an item of type {other}")


def _anthropic(body: Json) -> Iterator[Piece]:
    yield from _tools(body.get("tools") or ())
    yield from _blocks("system", body.get("system"))
    for message in body["messages"]:
        yield from _blocks(_role(message["role"]), message["content"])


def _gemini(body: Json) -> Iterator[Piece]:
    yield from _tools(f for t in body.get("tools") or () for f in t["functionDeclarations"])
    for part in (body.get("systemInstruction") or {}).get("parts") or ():
        yield Piece("system", part["text"])
    for message in body["contents"]:
        role = "assistant" if message.get("role") == "model" else "user"
        for part in message["parts"]:
            if call := part.get("functionCall"):
                yield Piece("tool_call", call["name"] + canonical(call.get("args") or {}))
            elif result := part.get("functionResponse"):
                yield Piece("tool_result", canonical(result["response"]))
            elif media := part.get("inlineData") or part.get("fileData"):
                yield Piece("image" if media["mimeType"].startswith("image/") else "file")
            elif part.get("thought"):
                yield Piece("thinking")
            else:
                yield Piece(role, part["text"])


def _bedrock(body: Json) -> Iterator[Piece]:
    tools = (body.get("toolConfig") or {}).get("tools") or ()
    yield from _tools(t["toolSpec"] for t in tools if "toolSpec" in t)  # beside them stand cache points
    for block in body.get("system") or ():
        if "text" in block:
            yield Piece("system", block["text"])
    for message in body["messages"]:
        for block in message["content"]:
            if "text" in block:
                yield Piece(message["role"], block["text"])
            elif call := block.get("toolUse"):
                yield Piece("tool_call", call["name"] + canonical(call["input"]))
            elif result := block.get("toolResult"):
                texts = [b["text"] if "text" in b else canonical(b["json"]) for b in result["content"]]
                yield _result("\n".join(texts))
            elif "reasoningContent" in block:
                yield Piece("thinking")
            elif "image" in block or "document" in block:
                yield Piece("image" if "image" in block else "file")


_READERS: dict[str, Callable[[Json], Iterator[Piece]]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}

_BLOCKS = {
    "image_url": "image", "input_image": "image", "image": "image",
    "file": "file", "input_file": "file", "input_audio": "file", "document": "file",
    "thinking": "thinking", "redacted_thinking": "thinking",
}  # fmt: skip


def _blocks(role: str, content: Any) -> Iterator[Piece]:
    """Content as OpenAI and Anthropic write it: a text or a list of typed blocks."""
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        match block["type"]:
            case "text" | "input_text" | "output_text":
                if block["text"]:
                    yield Piece(role, block["text"])
            case "tool_use":
                yield Piece("tool_call", block["name"] + canonical(block["input"]))
            case "tool_result":
                yield from _results(block.get("content"))
            case other:
                yield Piece(_BLOCKS[other])


def _results(content: Any) -> Iterator[Piece]:
    """A tool's result: one text, and media beside it."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    yield _result("\n".join(b["text"] for b in blocks if b["type"] == "text"))
    yield from _blocks("tool", [b for b in blocks if b["type"] != "text"])


def _role(role: str) -> str:
    return "system" if role == "developer" else role


def _tools(definitions: Iterable[Json]) -> Iterator[Piece]:
    for one in definitions:
        yield _tool(one.get("name") or one["type"], one.get("description") or "")


# ---- usage


def wire_usage(request: Json) -> dict[str, int]:
    """The provider's numbers; ``input`` includes what was read from and written to the cache."""
    usage, api = request["usage"], request["api"]
    if api in ("chat", "responses"):
        given, taken = ("prompt", "completion") if api == "chat" else ("input", "output")
        read = (usage.get(f"{given}_tokens_details") or {}).get("cached_tokens") or 0
        numbers = usage[f"{given}_tokens"], read, 0, usage[f"{taken}_tokens"]
    elif api == "gemini":
        read = usage.get("cachedContentTokenCount") or 0
        output = (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0)
        numbers = usage["promptTokenCount"], read, 0, output
    else:
        fresh, read, written, output = (usage.get(k) or 0 for k in _EXCLUSIVE[api])
        numbers = fresh + read + written, read, written, output
    return dict(zip(USAGE, numbers, strict=True))


_EXCLUSIVE = {
    "anthropic": ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"),
    "bedrock": ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens"),
}


def _usage(request: Json, told: Json, near: _Holding) -> Iterator[str]:
    parts = [v for v in request["usage"].values() if isinstance(v, int)]
    for name, want in wire_usage(request).items():
        have = told[name]
        if have is None:
            # Zero may be told by silence; a sum is held where it stands or where its parts do.
            held = near.has_number(want) or (name == "input" and all(map(near.has_number, parts)))
            if want and held:
                yield f"{name}: {want} is in the dump"
        elif have != want:
            yield f"{name}: {have} instead of {want}"


# ---- conversations


def wire_conversations(wire: Sequence[Json]) -> list[list[int]] | None:
    """Numbers (from 1) of the requests of each conversation: a request continues the one whose messages it repeats all,
    or whose response it names. None where a history was rewritten: what that is, is a question of words."""
    tails: list[tuple[list[Piece], list[int]]] = []
    for n, request in enumerate(wire, 1):
        messages = [p for p in wire_pieces(request) if p.kind not in ("tools", "system")]
        named = request["body"].get("previous_response_id")
        open_then = [t for t in tails if wire[t[1][-1] - 1]["end_unix_nano"] <= request["start_unix_nano"]]
        if named:
            fit = [t for t in open_then if response_id(wire[t[1][-1] - 1]) == named]
        else:
            fit = [t for t in open_then if len(t[0]) < len(messages) and messages[: len(t[0])] == t[0]]
            if not fit and any(t[0][:1] == messages[:1] and t[0] != messages for t in tails):
                return None
        if fit:
            tail = max(fit, key=lambda t: (len(t[0]), t[1]))
            tails.remove(tail)
            tails.append((messages, [*tail[1], n]))
        else:
            tails.append((messages, [n]))
    return sorted(numbers for _, numbers in tails)


# ---- what the dump still holds


@dataclass
class _Holding:
    """All values of one span or log record, its attributes' names left out: texts and JSON values of what was asked,
    and the numbers of the whole. The answer is left out: what it repeats of a prompt is no trace of the prompt."""

    start: int = 0
    end: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    numbers: frozenset[str] = frozenset()
    long: str = ""

    def count(self, piece: Piece) -> int:
        content = piece.content
        if piece.kind in ("image", "file", "thinking"):
            return 0
        if piece.kind == "tools":
            content = content.partition(": ")[2] or content
        elif piece.kind == "tool_call":
            content = content[content.index("{") :]
        exact = self.values[content] + self.texts[content]
        return max(exact, self.long.count(content) if len(content) >= _LONG else 0)

    def has_number(self, number: int) -> bool:
        return number == 0 or str(number) in self.numbers


class _Near(_Holding):
    """Several records that were open at one time. A piece that two of them hold is there once: each tells the prompt
    for itself, or a part of it that no other has."""

    def __init__(self, records: Sequence[_Holding]) -> None:
        super().__init__()
        self._records = records

    def count(self, piece: Piece) -> int:
        return max((r.count(piece) for r in self._records), default=0)

    def has_number(self, number: int) -> bool:
        return any(r.has_number(number) for r in self._records)


def _near(request: Json, records: Sequence[_Holding]) -> _Holding:
    start, end = request["start_unix_nano"], request["end_unix_nano"]
    return _Near([r for r in records if r.start <= end and r.end >= start])


def _holdings(traces: Sequence[Json], logs: Sequence[Json]) -> Iterator[_Holding]:
    times = {}
    for span in _records(traces, "Spans", "spans"):
        start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        times[span["spanId"]] = start, end
        events = [pair for event in span.get("events") or () for pair in event.get("attributes") or ()]
        yield _holding(start, end, [*(span.get("attributes") or ()), *events])
    for record in _records(logs, "Logs", "logRecords"):
        start, end = times.get(record.get("spanId"), (0, 0))
        body = {"key": "body", "value": record.get("body")}
        yield _holding(start, end, [*(record.get("attributes") or ()), body])


def _records(requests: Sequence[Json], what: str, name: str) -> Iterator[Json]:
    for request in requests:
        for resource in request.get(f"resource{what}") or ():
            for scope in resource.get(f"scope{what}") or ():
                yield from scope.get(name) or ()


def _holding(start: int, end: int, pairs: Sequence[Json]) -> _Holding:
    answers = _Holding()
    out = _Holding(start, end)
    for pair_ in pairs:
        _collect(_plain(pair_.get("value")), answers if "output" in pair_["key"] else out)
    out.numbers = frozenset(t for t in (*out.texts, *answers.texts) if t.isdigit())
    out.long = "\0".join(t for t in out.texts if len(t) >= _LONG)
    return out


def _collect(value: Any, out: _Holding) -> None:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            _collect(json.loads(value), out)
        except ValueError:
            out.texts[value] += 1  # cut: what it begins with can still be read
    elif isinstance(value, dict):
        out.values[canonical(value)] += 1
        for item in value.values():
            _collect(item, out)
    elif isinstance(value, list):
        out.values[canonical(value)] += 1
        for item in value:
            _collect(item, out)
    elif value is not None:
        out.texts[str(value)] += 1


def _plain(value: Any) -> Any:
    """OTLP's wrapped values without their wrapping."""
    if not isinstance(value, dict):
        return value
    if "kvlistValue" in value:
        return {e["key"]: _plain(e.get("value")) for e in value["kvlistValue"].get("values") or ()}
    if "arrayValue" in value:
        return [_plain(v) for v in value["arrayValue"].get("values") or ()]
    return next((v for v in value.values()), None)
