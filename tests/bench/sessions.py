"""Two agent sessions and a deep one, made from a seed: the same bytes on every machine.

``flagship24``: 24 requests of a coding agent whose system prompt begins with the time, large tool results, about 80,000 tokens
in the last request. ``long300``: 300 requests of a chat with small turns, 93,900 segments in all. ``deep``: one conversation
that grows by equal turns up to about a million tokens. Each as OTLP/JSON with messages as JSON strings (the semantic
conventions) and as OpenInference's flat attributes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otel_ctx.model import Span
from otel_ctx.tokens import Counter

WORDS = (
    "account address after amount answer archive balance basket batch before billing branch budget buffer build cache "
    "cancel carrier change charge check client close commit config country courier credit customer damage date debit "
    "delay deliver deploy detail discount draft email error event export failure field file filter form gateway handle "
    "header history import index input invoice item job key label ledger limit line list load locale log lookup machine "
    "market member merge message metric model month name network note number offer open option order output owner "
    "package page parcel parse partner path payment period policy price process profile proof queue quota range rate "
    "reason receipt record refund region release remote render repair reply report request reserve reset result retry "
    "return review role route rule sample schema search section sender service session setting shipment signal size "
    "source stage status step stock store stream subject summary supply switch system table target task team template "
    "tenant test ticket token total trace tracking transfer update upload user value vendor version view volume warning "
    "week weight window worker zone"
).split()

TOOLS = (
    "read_file write_file search_text list_folder run_tests show_diff commit_change apply_patch query_table fetch_page "
    "format_code lint_code open_ticket search_docs start_job send_note"
).split()

START = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Turn:
    """What one call adds: the model's answer and what follows it."""

    answer: dict[str, Any]
    follow: dict[str, Any]


@dataclass(frozen=True)
class Session:
    name: str
    tools: list[dict[str, Any]]
    systems: list[str]  # one a request
    messages: list[dict[str, Any]]  # of the last request and its answer
    counts: list[int]  # messages of each request
    tokens: list[int]  # of each request

    @property
    def requests(self) -> int:
        return len(self.counts)


def _sentence(r: random.Random, low: int = 5, high: int = 18) -> str:
    return " ".join(r.choices(WORDS, k=r.randint(low, high))).capitalize() + r.choice(
        (". ", ". ", ".\n", ": ")
    )


def _fill(r: random.Random, size: int, piece: Any) -> str:
    out: list[str] = []
    length = 0
    while length < size:
        out.append(piece(r))
        length += len(out[-1])
    return "".join(out)[:size]


def _code(r: random.Random) -> str:
    a, b, c, d = r.choices(WORDS, k=4)
    return (
        f"def {a}_{b}({c}: int, {d}: str | None = None) -> dict[str, int]:\n"
        f'    """{_sentence(r, 4, 9).strip()}"""\n'
        f"    if {c} > {r.randint(1, 999)}:\n        raise ValueError(f'{a} {{{c}!r}}')\n"
        f"    return {{'{b}': {c} * {r.randint(2, 64)}}}\n\n\n"
    )


def _row(r: random.Random) -> str:
    return json.dumps({
        "id": f"{r.getrandbits(48):012x}",
        "at": f"2026-{r.randint(1, 12):02}-{r.randint(1, 28):02}T{r.randint(0, 23):02}:00:00Z",
        r.choice(WORDS): r.choice(WORDS), "amount": round(r.random() * 1000, 2), "ok": r.random() < 0.9,
    }) + "\n"  # fmt: skip


def _log(r: random.Random) -> str:
    return f"tests/test_{r.choice(WORDS)}.py::test_{r.choice(WORDS)} {r.choice(('PASSED', 'FAILED'))} [{r.randint(0, 100)}%]\n"


_TEXTS = (_sentence, _code, _row, _log)


def _tool(r: random.Random, name: str, size: int) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "type": "function", "name": name, "description": _fill(r, int(size * 0.45), _sentence),
        "parameters": {"type": "object", "properties": {}, "required": []},
    }  # fmt: skip
    while len(json.dumps(tool)) < size:
        key = "_".join(r.choices(WORDS, k=2))
        tool["parameters"]["properties"][key] = {
            "type": r.choice(("string", "integer")),
            "description": _sentence(r).strip(),
        }
        tool["parameters"]["required"].append(key)
    return tool


def _tokens(
    tools: list[dict[str, Any]], systems: list[str], messages: list[dict[str, Any]], counts: list[int]
) -> list[int]:
    """What a provider would report: every request's text counted, each message once."""
    counter = Counter()

    def count(value: str) -> int:
        return counter.count(value, "o200k_base")[0]

    fixed, ahead = sum(count(json.dumps(t)) for t in tools), [0]
    for m in messages:
        ahead.append(
            ahead[-1]
            + sum(
                count(str(p.get("content") or p.get("response") or p.get("arguments"))) + 4
                for p in m["parts"]
            )
        )
    of_system = {text: count(text) for text in dict.fromkeys(systems)}
    return [fixed + of_system[s] + ahead[n] for s, n in zip(systems, counts, strict=True)]


def _session(
    name: str,
    tools: list[dict[str, Any]],
    systems: list[str],
    messages: list[dict[str, Any]],
    counts: list[int],
) -> Session:
    return Session(name, tools, systems, messages, counts, _tokens(tools, systems, messages, counts))


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _called(r: random.Random, number: int, text: str, size: int) -> tuple[dict[str, Any], str]:
    call_id = f"call_{number:05}_{r.getrandbits(32):08x}"
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    arguments = {"path": f"src/{r.choice(WORDS)}/{r.choice(WORDS)}.py"} | (
        {"patch": _fill(r, size, _code)} if size else {"line": r.randint(1, 900)}
    )
    parts.append({"type": "tool_call", "id": call_id, "name": r.choice(TOOLS[:12]), "arguments": arguments})
    return {"role": "assistant", "parts": parts}, call_id


def _result(r: random.Random, call_id: str, size: int) -> dict[str, Any]:
    return {
        "role": "user",
        "parts": [
            {"type": "tool_call_response", "id": call_id, "response": _fill(r, size, r.choice(_TEXTS))}
        ],
    }


def flagship24() -> Session:
    r = random.Random(24)
    tools = [_tool(r, name, 4_900) for name in TOOLS]
    base = _fill(r, 50_000, _sentence) + _fill(r, 12_000, _code)
    messages = [_text("user", _fill(r, 9_000, _sentence))]
    systems, counts = [], []
    for i in range(24):
        systems.append(
            f"Current time: 2026-11-30T{9 + i // 60:02}:{i % 60:02}:{r.randint(0, 59):02}Z\n{base}"
        )
        counts.append(len(messages))
        answer, call_id = _called(r, i, _fill(r, r.randint(200, 500), _sentence), r.randint(150, 500))
        messages += [answer, _result(r, call_id, r.randint(3_000, 9_000))]
    return _session("flagship24", tools, systems, messages, counts)


def long300() -> Session:
    r = random.Random(300)
    tools = [_tool(r, name, 258) for name in TOOLS[:12]]
    system = _fill(r, 1_200, _sentence)
    messages = [_text("user", _fill(r, 200, _sentence))]
    counts = []
    for i in range(300):
        counts.append(len(messages))
        if i % 2:
            messages += [
                _text("assistant", _fill(r, r.randint(45, 105), _sentence)),
                _text("user", _fill(r, r.randint(30, 90), _sentence)),
            ]
        else:
            answer, call_id = _called(r, i, "", 0)
            messages += [answer, _result(r, call_id, r.randint(15, 45))]
    return _session("long300", tools, [system] * 300, messages, counts)


def deep(requests: int, size: int = 4_000) -> Session:
    """Equal turns of about ``size`` characters each."""
    r = random.Random(1_000_000)
    tools = [_tool(r, name, 1_000) for name in TOOLS[:8]]
    system = _fill(r, 4_000, _sentence)
    messages = [_text("user", _fill(r, 400, _sentence))]
    counts = []
    for i in range(requests):
        counts.append(len(messages))
        answer, call_id = _called(r, i, _fill(r, 300, _sentence), 200)
        messages += [answer, _result(r, call_id, size - 700)]
    return _session("deep", tools, [system] * requests, messages, counts)


# ---- as dumps


def _kv(key: str, value: str | int) -> dict[str, Any]:
    return {
        "key": key,
        "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)},
    }


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _strings(s: Session, i: int) -> list[dict[str, Any]]:
    n = s.counts[i]
    tools, system, messages = (
        _dump(s.tools),
        _dump([{"type": "text", "content": s.systems[i]}]),
        _dump(s.messages[:n]),
    )
    return [
        _kv("gen_ai.operation.name", "chat"), _kv("gen_ai.provider.name", "openai"), _kv("gen_ai.request.model", "gpt-4.1"),
        _kv("gen_ai.response.id", f"resp_{s.name}_{i}"), _kv("gen_ai.usage.output_tokens", 50),
        _kv("gen_ai.usage.input_tokens", s.tokens[i]),
        _kv("gen_ai.system_instructions", system), _kv("gen_ai.tool.definitions", tools),
        _kv("gen_ai.input.messages", messages),
        _kv("gen_ai.output.messages", _dump([s.messages[n]])),
    ]  # fmt: skip


def _flat(s: Session, i: int) -> list[dict[str, Any]]:
    out = [
        _kv("openinference.span.kind", "LLM"),
        _kv("llm.model_name", "gpt-4.1"),
        _kv("llm.provider", "openai"),
        _kv("llm.token_count.completion", 50),
        _kv("llm.token_count.prompt", s.tokens[i]),
    ]
    out += [_kv(f"llm.tools.{j}.tool.json_schema", _dump(t)) for j, t in enumerate(s.tools)]
    for j, m in enumerate([_text("system", s.systems[i]), *s.messages[: s.counts[i]]]):
        at = f"llm.input_messages.{j}.message."
        part = m["parts"][-1]
        role = "tool" if part["type"] == "tool_call_response" else m["role"]
        out.append(_kv(at + "role", role))
        for p in m["parts"]:
            if p["type"] == "text":
                out.append(_kv(at + "content", p["content"]))
            elif p["type"] == "tool_call":
                call = at + "tool_calls.0.tool_call."
                out += [
                    _kv(call + "id", p["id"]),
                    _kv(call + "function.name", p["name"]),
                    _kv(call + "function.arguments", _dump(p["arguments"])),
                ]
            else:
                out += [_kv(at + "content", p["response"]), _kv(at + "tool_call_id", p["id"])]
    return out


def lines(s: Session, *, flat: bool = False) -> Iterator[bytes]:
    """OTLP/JSON lines of eight spans each, as a Collector's file exporter writes them."""
    make = _flat if flat else _strings
    batch: list[dict[str, Any]] = []
    for i in range(s.requests):
        start = START + i * 3 * SECOND
        batch.append({
            "traceId": f"{hash_of(s.name):032x}", "spanId": f"{i + 1:016x}", "parentSpanId": f"{0xFFFF:016x}",
            "name": "chat gpt-4.1", "kind": 3, "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 2 * SECOND),
            "attributes": make(s, i), "status": {},
        })  # fmt: skip
        if len(batch) == 8 or i == s.requests - 1:
            scope = {"scope": {"name": "bench"}, "spans": batch}
            yield (
                _dump(
                    {
                        "resourceSpans": [
                            {
                                "resource": {"attributes": [_kv("service.name", "agent")]},
                                "scopeSpans": [scope],
                            }
                        ]
                    }
                ).encode()
                + b"\n"
            )
            batch = []


def span(s: Session, i: int) -> Span:
    """One request as the engine takes it."""
    attributes = {
        kv["key"]: kv["value"].get("stringValue") or int(kv["value"]["intValue"]) for kv in _strings(s, i)
    }
    start = START + i * 3 * SECOND
    return Span(
        f"{hash_of(s.name):032x}",
        f"{i + 1:016x}",
        f"{0xFFFF:016x}",
        "chat",
        start,
        start + 2 * SECOND,
        attributes,
        3,
    )


def hash_of(name: str) -> int:
    return int.from_bytes(name.encode().ljust(16, b"\0")[:16], "big")


def segments(s: Session) -> int:
    """How many segments all requests hold together."""
    ahead = [0]
    for m in s.messages:
        ahead.append(ahead[-1] + len(m["parts"]))
    return sum(len(s.tools) + 1 + ahead[n] for n in s.counts)
