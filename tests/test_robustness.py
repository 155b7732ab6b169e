"""Any bytes at all: no crash, no hang, bounded memory, and nothing of the data moves the terminal."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_ctx.engine import Engine
from otel_ctx.errors import InputError
from otel_ctx.inputs import FORMATS, Batch, compression, format_names, read
from otel_ctx.inputs.interface import BytesFormat, JsonFormat, StreamFormat, Wrapping
from otel_ctx.model import Event, Link, Span
from otel_ctx_cli.main import main
from tests.dumps import line, names, skipped, spans
from tests.writers import WRITERS
from tests.writers.otlp import pairs
from tests.writers.otlp import span as as_otlp

TRACE = "0af7651916cd43dd8448eb211c80319c"
ODD = "\x1b[2J\x1b]0;title\x07 \u202e\x00\x9b31m\r\b\ud800 \U0001f642"  # moves a cursor, hides, is no text


def of(data: bytes) -> list[Batch]:
    """What is read; that nothing can be used is an answer too."""
    try:
        return list(read(["-"], stdin=io.BytesIO(data)))
    except InputError:
        return []


def command(path: Path, *args: str) -> Result:
    result = CliRunner().invoke(main, ["analyze", str(path), *args], prog_name="otelctx")
    assert result.exit_code in (0, 1, 2), result.output
    assert "a fault of otelctx itself" not in result.output + result.stderr
    return result


def chat(n: int = 1, messages: Any = None, **more: Any) -> Span:
    text = json.dumps(messages or [{"role": "user", "parts": [{"type": "text", "content": f"hello {n}"}]}])
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.usage.input_tokens": 10 * n,
        "gen_ai.input.messages": text,
    }
    fields: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": f"{n:016x}",
        "parent_id": "",
        "name": "chat",
        "start_unix_nano": n * 10**9,
        "end_unix_nano": n * 10**9 + 1,
        "attributes": {**said, **more.pop("attributes", {})},
        **more,
    }
    return Span(**fields)


def request(*items: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(items)}]}]}).encode()


# ---- any bytes


@given(st.binary(max_size=2000))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    of(data)


STARTS = (
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1", b"PK\x03\x04", b"\0\0\0\x10{", b"\0\0\0\x10\x0a", b"\x0a\x20\x0a\x04",
    b"{\n  resource: {", b"{\n  traceId: '", b'{"resourceSpans":', b'{"data":[{', b'[{"traceId":', b'{"traces":[[', b"\xff\xfe",
)  # fmt: skip


@given(st.sampled_from(STARTS), st.binary(max_size=300))
def test_no_bytes_behind_a_familiar_beginning_make_it_fail(start: bytes, data: bytes) -> None:
    of(start + data)


def small() -> list[Span]:
    event = Event("gen_ai.user.message", 5, {"content": "hi", "n": 1})
    return [
        chat(1, events=(event,), links=(Link(TRACE, f"{7:016x}"),), resource={"service.name": "shop"}),
        chat(
            2,
            parent_id=f"{1:016x}",
            scope_name="lib",
            scope_version="1",
            status_code=2,
            status_message="boom",
        ),
    ]


WHOLE = {name: writer.write(small(), ()) for name, writer in WRITERS.items()}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_no_damage_makes_a_format_fail(name: str, data: st.DataObject) -> None:
    damaged = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        if data.draw(st.booleans()):
            damaged[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        else:
            damaged[at] = data.draw(st.integers(0, 255))
        if not damaged:
            return
    of(bytes(damaged))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "traceId trace_id traceID spanId span_id spanID id name kind parentId references tags logs fields processes spans data "
    "result trace batches resourceSpans scopeSpans scope resource attributes events links status context span_kind "
    "start_time startTime timestamp duration observations type metadata input output usageDetails traces meta metrics "
    "service key value stringValue arrayValue values context.trace_id context.span_id attributes.llm severity_number "
    "observed_timestamp body".split()
)
documents = st.recursive(
    json_values,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=6),
    max_leaves=20,
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_no_document_makes_any_format_fail(document: Any) -> None:
    for known in FORMATS:
        if isinstance(known, (JsonFormat, StreamFormat, Wrapping)):
            claimed = known.claims(document)
            if isinstance(known, JsonFormat) and claimed:
                known.decode(document, "here", [])
            elif isinstance(known, Wrapping) and claimed:
                known.open(document)
    of(json.dumps(document).encode())


@given(
    st.sampled_from(format_names()), st.binary(max_size=200) | documents.map(lambda d: json.dumps(d).encode())
)
def test_no_bytes_make_a_format_fail_that_was_named(name: str, data: bytes) -> None:
    with suppress(InputError):
        list(read(["-"], format=name, stdin=io.BytesIO(data)))


WRAPPED = (
    {"resource_spans": []}, {"resourceSpans": []}, {"batches": []}, {"trace": {"batches": []}}, {"data": [{"data": []}]},
    {"trace": {"resource_spans": []}}, {"result": {"resource_spans": []}}, {"traceId": "1", "spanId": "2", "attributes": {}},
)  # fmt: skip


@pytest.mark.parametrize("name", format_names())
@pytest.mark.parametrize("document", WRAPPED, ids=json.dumps)
def test_what_is_put_round_an_answer_is_opened_once(document: dict[str, Any], name: str) -> None:
    with suppress(InputError):
        assert (
            len(list(read(["-"], format=name, stdin=io.BytesIO(json.dumps(document, indent=1).encode()))))
            == 1
        )


# ---- odd values, in every format


@pytest.mark.parametrize("name", [n for n in WRITERS if n not in ("phoenix-dataframe-parquet",)])
def test_odd_text_in_every_field_of_every_format(name: str, tmp_path: Path) -> None:
    text = ODD.replace("\ud800", "") if "proto" in name or "messagetojson" in name or "tempo" in name else ODD
    odd = chat(
        1,
        [{"role": text, "parts": [{"type": "text", "content": text}, {"type": text, "name": text}]}],
        name=text,
        status_code=2,
        status_message=text,
        scope_name=text,
        scope_version=text,
        resource={"service.name": text, text: text},
        events=(Event(text, 5, {text: text}),),
        attributes={text: text, "gen_ai.request.model": text, "gen_ai.agent.name": text, "error.type": text},
    )
    try:
        data = WRITERS[name].write([odd], ())
    except (UnicodeEncodeError, ValueError):
        data = WRITERS[name].write(_without_surrogates([odd]), ())
    path = tmp_path / f"{name}\x1b[31m"
    path.write_bytes(data)
    assert len(spans(of(data))) == 1
    for arguments in ((), ("-v",), ("-vv",), ("--fail-on", "info"), ("--json", "-")):
        result = command(path, *arguments)
        for stream in (result.stdout, result.stderr):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", stream)


def _without_surrogates(items: list[Span]) -> list[Span]:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, dict):
            return {clean(k): clean(v) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(map(clean, value))
        if isinstance(value, Event):
            return Event(clean(value.name), value.time_unix_nano, clean(value.attributes))
        return value

    return [Span(**{f: clean(getattr(s, f)) for f in s.__dataclass_fields__}) for s in items]


NUMBERS: dict[str, Any] = {
    "beyond 64 bits": 10**30,
    "below 64 bits": -(10**30),
    "infinite": float("inf"),
    "no number": float("nan"),
    "text": "many",
    "5000 digits": "9" * 5000,
    "nothing": None,
    "a list": [1],
}


NUMBERED = (
    "otlp-json-lines", "jaeger-v1", "zipkin-js", "phoenix", "langfuse-trace", "datadog", "flat-plain", "python-console-lines",
)  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("name", NUMBERED)
def test_odd_numbers(name: str, value: Any, tmp_path: Path) -> None:
    if (name, value) == ("zipkin-js", [1]):
        pytest.skip("String([1]) is the text 1")
    path = tmp_path / "dump"
    path.write_bytes(WRITERS[name].write([chat(1, attributes={"gen_ai.usage.input_tokens": value})], ()))
    report = tmp_path / "report.json"
    command(path, "--json", str(report))
    if report.exists():
        (call,) = json.loads(report.read_bytes())["calls"]
        assert call["usage"]["input"] is None


TIMES = {
    "zero": (0, 0),
    "no end": (10**18, 0),
    "ends before it starts": (10**18, 10**17),
    "year 2262": (9_223_372_036_854_775_807, 9_223_372_036_854_775_808),
    "the last that there is": (2**64 - 2, 2**64 - 1),
}


@pytest.mark.parametrize(("start", "end"), TIMES.values(), ids=TIMES)
def test_odd_times(start: int, end: int, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    items = [as_otlp(chat(n, start_unix_nano=start, end_unix_nano=end)) for n in (1, 2)]
    path.write_bytes(request(*items))
    report = tmp_path / "report.json"
    assert command(path, "-vv", "--json", str(report)).exit_code == 0
    assert len(json.loads(report.read_bytes())["calls"]) == 2


def calls_of(tmp_path: Path, *items: dict[str, Any]) -> list[dict[str, Any]]:
    path, report = tmp_path / "dump", tmp_path / "report.json"
    path.write_bytes(request(*items))
    assert command(path, "-vv", "--json", str(report)).exit_code == 0
    found: list[dict[str, Any]] = json.loads(report.read_bytes())["calls"]
    return found


def test_equal_span_ids_in_two_traces_are_two_calls(tmp_path: Path) -> None:
    one, two = as_otlp(chat(1)), {**as_otlp(chat(1)), "traceId": "1" * 32}
    assert {c["id"] for c in calls_of(tmp_path, one, two)} == {f"{TRACE}:{1:016x}", f"{'1' * 32}:{1:016x}"}


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_spans_that_are_each_others_parents(length: int, tmp_path: Path) -> None:
    ring = [as_otlp(chat(n + 1, parent_id=f"{(n + 1) % length + 1:016x}")) for n in range(length)]
    assert len(calls_of(tmp_path, *ring)) == length


def test_a_span_that_is_linked_to_itself(tmp_path: Path) -> None:
    assert len(calls_of(tmp_path, as_otlp(chat(1, links=(Link(TRACE, f"{1:016x}"),))))) == 1


def test_parents_in_a_row_of_thousands(tmp_path: Path) -> None:
    row = [as_otlp(chat(n, parent_id=f"{n - 1:016x}" if n > 1 else "")) for n in range(1, 3001)]
    assert len(calls_of(tmp_path, *row)) == 3000


def test_the_last_of_two_equal_keys_counts() -> None:
    data = line(1).replace(b'"name":', b'"name": "first", "name":')
    assert names(of(data)) == ["span 1"]


# ---- large and deep


NESTED = {
    "lists": b"[" * 100_000,
    "closed lists": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "in a request": b'{"resourceSpans":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "on lines": b"[\n" * 100_000,
    "util.inspect": b"{\n  resource: {" + b"[" * 100_000 + b"\n}\n",
    "spaces": b" " * 1_000_000,
    "zeros": b"\0" * 1_000_000,
    "new lines": b"\n" * 1_000_000,
    "quotes": b'{"' * 200_000,
    "backslashes": b'{"a":"' + b"\\" * 1_000_001,
}


@pytest.mark.parametrize("data", NESTED.values(), ids=NESTED)
def test_the_same_a_hundred_thousand_times_costs_only_itself(data: bytes) -> None:
    assert names(of(line(1) + b"\n" + data + b"\n" + line(2) + b"\n"))[:1] == ["span 1"]
    of(data)


DEEP = {
    "open": "[" * 100_000,
    "closed": "[" * 100_000 + "]" * 100_000,
    "objects": '[{"a":' * 50_000,
    "spaces": " " * 1_000_000,
    "zeros": "\0" * 1_000,
}
HOLD = ("gen_ai.input.messages", "gen_ai.tool.definitions", "input.value", "gen_ai.system_instructions")


@pytest.mark.parametrize("key", HOLD)
@pytest.mark.parametrize("value", DEEP.values(), ids=DEEP)
def test_deep_and_empty_texts_inside_an_attribute(key: str, value: str, tmp_path: Path) -> None:
    more = {key: value, "openinference.span.kind": "LLM"} if key == "input.value" else {key: value}
    assert len(calls_of(tmp_path, as_otlp(chat(1, attributes=more)))) == 1


def test_nested_values_inside_an_attribute(tmp_path: Path) -> None:
    nested: Any = "deep"
    for _ in range(40):  # five levels of OTLP each
        nested = {"a": [nested]}
    item = as_otlp(chat(1))
    item["attributes"] += pairs({"gen_ai.tool.definitions": [nested]})
    assert len(calls_of(tmp_path, item)) == 1


def test_fifty_megabytes_of_base64_in_one_attribute(tmp_path: Path) -> None:
    image = base64.b64encode(bytes(range(256)) * 150_000).decode()
    part = {"type": "blob", "mime_type": "image/png", "content": image}
    messages = [{"role": "user", "parts": [{"type": "text", "content": "look"}, part]}]
    (call,) = calls_of(tmp_path, as_otlp(chat(1, messages)))
    kinds = [s["kind"] for s in call["segments"]["new"]]
    assert kinds == ["user", "image"]
    assert (call["tokens"]["counted"] or 0) < 1_000, "no base64 is counted"


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(b" " * (1 << 27)),
    "gzip of brackets": lambda: gzip.compress(b"[" * (1 << 27)),
    "gzip in gzip": lambda: gzip.compress(gzip.compress(b"\0" * (1 << 27))),
    "zstd": lambda: zstandard.ZstdCompressor().compress(b" " * (1 << 27)),
    "frames of zstd": lambda: b"".join(
        struct.pack(">I", len(f)) + f for f in [zstandard.ZstdCompressor().compress(b"[" * (1 << 24))] * 8
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_bounded_memory(name: str, tmp_path: Path) -> None:
    """In a process of its own, so that its peak is its own."""
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[name]())
    program = (
        "import resource, sys; from otel_ctx.errors import InputError; from otel_ctx.inputs import read\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: list(read([sys.argv[1]]))\n"
        "except InputError as error: print(error, file=sys.stderr)\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, check=True, text=True, timeout=300
    )
    assert int(run.stdout) < 700 << 20
    assert str(path) in run.stderr


def test_a_zip_is_told_to_be_unpacked_first() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.jsonl", b" " * 1_000_000)
    with pytest.raises(InputError, match=r"a zip archive \(unpack it first"):
        list(read(["-"], stdin=io.BytesIO(out.getvalue())))


def test_a_bomb_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_MODEST", 1 << 16)
    monkeypatch.setattr(compression, "_ZSTD_RATIO", 100)
    packer = zstandard.ZstdCompressor()
    frames = [packer.compress(line(1)), packer.compress(b" " * (1 << 22)), packer.compress(line(2))]
    batches = of(b"".join(struct.pack(">I", len(f)) + f for f in frames))
    assert names(batches) == ["span 1", "span 2"]
    assert any("times its size" in note.why for note in skipped(batches))


# ---- formats that read bytes themselves


@pytest.mark.parametrize("known", [f for f in FORMATS if isinstance(f, BytesFormat)], ids=lambda f: f.name)
@given(data=st.binary(max_size=300))
def test_no_bytes_make_a_reader_of_bytes_fail(known: BytesFormat, data: bytes) -> None:
    known.claims(data)
    list(known.read(io.BytesIO(data), "here", []))


def test_a_sentence_in_the_place_of_a_tools_name_is_text(tmp_path: Path) -> None:
    """Where it came from nobody knows: it is shown with the texts only."""
    path = tmp_path / "dump"
    tools = [{"type": "function", "name": name} for name in ("purple elephants at midnight", "search_docs")]
    items = [
        as_otlp(chat(n, attributes={"gen_ai.tool.definitions": json.dumps(tools[: 3 - n])})) for n in (1, 2)
    ]
    path.write_bytes(request(*items))
    shown, redacted = command(path, "-v").stdout, command(path, "-v", "--redact").stdout
    assert "purple elephants" in shown
    assert "purple elephants" not in redacted
    assert re.search(r"\(no name [0-9a-f]{8}\)", redacted)
    assert "search_docs" in redacted


# ---- the same in logs of requests and in transcripts


LOGS = sorted(
    path
    for path in (Path(__file__).parent / "data" / "transcripts").glob("*/*.jsonl.gz")
    if path.name != "traces.jsonl.gz"
)
_TOLD_BY = frozenset(
    "type role uuid parentUuid id sessionId timestamp start_unix_nano api kind subtype $set".split()
)  # what a reader knows the rows by


def _with_odd_texts(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in _TOLD_BY else value[:200] + ODD
    if isinstance(value, list):
        return [_with_odd_texts(item, key) for item in value]
    return {k: _with_odd_texts(v, k) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("log", LOGS, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_odd_text_in_every_field_of_a_log(log: Path, tmp_path: Path) -> None:
    rows = [json.loads(row) for row in gzip.decompress(log.read_bytes()).splitlines()]
    path, report = tmp_path / "log\x1b[31m.jsonl", tmp_path / "report.json"
    path.write_text("".join(json.dumps(_with_odd_texts(row)) + "\n" for row in rows), "utf-8")
    assert spans(of(path.read_bytes()))
    for arguments in (("-vv",), ("--json", str(report))):
        result = command(path, *arguments)
        for stream in (result.stdout, result.stderr):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", stream)
    assert json.loads(report.read_bytes())["schema"]


def test_a_value_of_protobuf_that_is_nested_a_hundred_thousand_times() -> None:
    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while size > 0x7F:
            length, size = length + bytes((size & 0x7F | 0x80,)), size >> 7
        return bytes((number << 3 | 2,)) + length + bytes((size,)) + data

    value = field(1, b"x")
    for _ in range(50_000):  # AnyValue.array_value, ArrayValue.values
        value = field(5, field(1, value))
    ids = field(1, bytes.fromhex(TRACE)) + field(2, b"\0\0\0\0\0\0\0\1")
    span = ids + field(5, b"deep") + field(9, field(1, b"key") + field(2, value))
    data = field(1, field(2, field(2, span)))
    with pytest.raises(InputError, match=r"^<stdin>(:|, )"):
        list(read(["-"], stdin=io.BytesIO(data)))


@pytest.mark.parametrize("form", ["messages", "body"])
def test_an_item_that_only_names_what_the_server_keeps_is_missed(form: str) -> None:
    said = [
        {"role": "user", "content": "hi"},
        {"type": "item_reference", "id": "msg_1"},
        {"role": "user", "content": "and?"},
    ]
    body = json.dumps({"model": "gpt-4.1", "input": said, "tools": []})
    by_openinference = {
        "openinference.span.kind": "LLM", "input.value": body, "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
    }  # fmt: skip
    more = {"gen_ai.input.messages": json.dumps(said)} if form == "messages" else by_openinference
    engine = Engine()
    engine.feed([chat(1, attributes=more)])
    (reading,) = engine.close().readings
    assert [s.kind for s in reading.call.prompt] == ["user", "user"]
    assert reading.call.completeness.status == "partial"
    assert set(reading.call.completeness.reasons) & {"server_side", "not_captured"}
    assert "messages" in reading.call.completeness.lost
