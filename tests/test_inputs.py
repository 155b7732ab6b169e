"""Reading files, folders and standard input: what is told by its content, kept, passed over and refused."""

from __future__ import annotations

import gc
import gzip
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.errors import InputError
from otel_ctx.inputs import Batch, Skipped, detection, interface, read
from tests.dumps import TRACE, line, names, skipped, spans

DATA = Path(__file__).parent / "data" / "inputs"
# ---- told by its content


@pytest.mark.parametrize(
    ("name", "format_", "batches"),
    [
        ("trace.json", "otlp-json", 1),
        ("trace.jsonl", "otlp-json", 2),
        ("trace.jsonl.gz", "otlp-json+gzip", 2),
        ("trace.base64.json", "otlp-json", 1),
        ("trace.snake_case.json", "otlp-json", 1),
        ("trace.binpb", "otlp-protobuf", 1),
        ("trace.binpb.gz", "otlp-protobuf+gzip", 1),
        ("trace.two-requests.binpb", "otlp-protobuf", 2),
    ],
)
def test_the_name_of_a_file_says_nothing(name: str, format_: str, batches: int, write: Any) -> None:
    path = write("dump.bin", (DATA / name).read_bytes())
    found = list(read([path]))
    assert [(batch.source, batch.format) for batch in found] == [("dump.bin", format_)] * batches
    assert len(spans(found)) == 3
    assert not skipped(found)


def test_real_dumps() -> None:
    (javascript,) = read([DATA / "body.js.json"])
    chat, agent = javascript.spans
    assert chat.parent_id == agent.span_id
    assert (chat.kind, chat.attributes["gen_ai.usage.input_tokens"]) == (3, 1200)
    logs = [record for batch in read([DATA / "openai.js.logs.jsonl.gz"]) for record in batch.logs]
    assert {record.name for record in logs} >= {
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.choice",
    }
    assert all(record.trace_id and record.span_id and record.time_unix_nano for record in logs)


def test_a_list_of_requests(write: Any) -> None:
    path = write("list.json", b"[" + line(1) + b"," + line(2) + b"]")
    found = list(read([path]))
    assert names(found) == ["span 1", "span 2"]
    assert {span.where for span in spans(found)} == {"list.json"}


def test_pretty_requests_in_a_row(write: Any) -> None:
    pretty = json.dumps(json.loads(line(1)), indent=4).encode() + b"\n"
    found = list(read([write("console.txt", pretty * 2)]))
    second = len(pretty.splitlines()) + 1
    assert [span.where for span in spans(found)] == ["console.txt:1", f"console.txt:{second}"]


def test_byte_order_mark_line_ends_and_blank_lines(write: Any) -> None:
    path = write("windows.jsonl", b"\xef\xbb\xbf" + line(1) + b"\r\n\r\n" + line(2) + b"\r\n")
    found = list(read([path]))
    assert [span.where for span in spans(found)] == ["windows.jsonl:1", "windows.jsonl:3"]
    assert not skipped(found)


def test_spans_and_log_records_in_one_file(write: Any) -> None:
    path = write("all.jsonl", (DATA / "trace.jsonl").read_bytes() + (DATA / "logs.json").read_bytes())
    found = list(read([path]))
    assert [(len(batch.spans), len(batch.logs)) for batch in found] == [(2, 0), (1, 0), (0, 3)]


def test_a_format_may_be_named(write: Any) -> None:
    path = write("dump", (DATA / "trace.binpb.gz").read_bytes())
    assert len(spans(list(read([path], format="otlp-protobuf")))) == 3
    with pytest.raises(InputError, match="dump"):
        list(read([path], format="otlp-json"))


@pytest.mark.parametrize("name", ["otlp-jsno", "gzip", ""])
def test_a_format_that_is_not_known_is_refused_at_once(name: str) -> None:
    with pytest.raises(InputError, match="one of otlp-protobuf, otlp-json"):
        read([], format=name)


# ---- damage


def test_a_last_line_that_is_still_being_written(write: Any) -> None:
    path = write("live.jsonl", line(1) + b"\n" + line(2) + b"\n" + line(3)[:-30])
    found = list(read([path]))
    assert names(found) == ["span 1", "span 2"]
    assert skipped(found) == [Skipped("live.jsonl:3", "cut off: the data end inside this record")]


def test_a_damaged_line_in_the_middle(write: Any) -> None:
    path = write("d.jsonl", b"\n".join([line(1), line(2)[:50], line(3)[:60], line(4), b"{]", line(5)]))
    found = list(read([path]))
    assert names(found) == ["span 1", "span 4", "span 5"]
    assert [note.where for note in skipped(found)] == ["d.jsonl:2-3", "d.jsonl:5"]


def test_what_else_stands_in_the_file_is_told_once(write: Any) -> None:
    noise = b'{"message": "info"}\n' * 500
    path = write("d.jsonl", noise + line(1) + b"\nnoise\nnoise\n" + line(2) + b'\n{"resourceMetrics": []}\n')
    found = list(read([path]))
    assert names(found) == ["span 1", "span 2"]
    assert skipped(found) == [
        Skipped("d.jsonl:1-500", "no telemetry of a known format (keys message)"),
        Skipped("d.jsonl:502-503", "no JSON"),
        Skipped("d.jsonl:505", "OTLP metrics, which hold no spans"),
    ]


def test_notes_do_not_pile_up(write: Any) -> None:
    path = write("d.jsonl", b'{"type": 1}\n{"kind": 1}\n' * 3000)
    waiting = read([path])
    assert len(next(waiting).skipped) >= 1000
    with pytest.raises(InputError, match=r"d\.jsonl:1: no telemetry of a known format \(keys type\)"):
        list(waiting)


def test_a_malformed_span_is_told_with_its_place(write: Any) -> None:
    bad = line(2).replace(TRACE.encode(), b"x" * 32)
    found = list(read([write("d.jsonl", line(1) + b"\n" + bad)]))
    assert names(found) == ["span 1"]
    (note,) = skipped(found)
    assert (note.where, note.why[:37]) == ("d.jsonl:2", "resourceSpans[0].scopeSpans[0].spans[")


def test_bytes_that_are_no_utf8_are_replaced_and_told(write: Any) -> None:
    found = list(read([write("d.jsonl", line(1, text="cafX").replace(b"cafX", b"caf\xe9"))]))
    assert spans(found)[0].attributes["text"] == "caf\ufffd"
    assert skipped(found) == [Skipped("d.jsonl", "bytes that are no UTF-8 were replaced by U+FFFD")]


# ---- refused


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"d: holds no spans \(is this the file"),
        (b"\n \r\n", r"d: no telemetry"),
        (b'{"resourceSpans": []}', r"d: holds no spans \("),
        (b'{"resourceMetrics": []}', r"d: OTLP metrics, which hold no spans \(name the file"),
        (bytes(range(256)) * 300, r"d: no telemetry of a known format \(known are otlp-protobuf, otlp-json"),
        (b"# Notes\n\nSome text.\n", r"d: no telemetry"),
        (b'{"name": "package", "version": "1"}', r"d: no telemetry of a known format \(keys name, version\)"),
        (b'{"a secret prompt, as a key": 1}', r"d: no telemetry of a known format \(known"),
        (b"[1, 2, 3]", r"d: no telemetry"),
        (
            b'{"resourceId": "/X/Microsoft.CognitiveServices/Y", "category": "RequestResponse", "operationName": "Z"}',
            r"d: Azure's diagnostic log, which holds .* \(log the bodies",
        ),
        (b'{"resourceSpans": [{"scope', r"d:1: cut off"),
        (b"PK\x03\x04" + b"\n{" * 50 + b"\0", r"d: a zip archive \(unpack it first"),
        (gzip.compress(b"", mtime=0), r"d: holds no spans"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_with_a_way_out(data: bytes, message: str, write: Any) -> None:
    with pytest.raises(InputError, match=message):
        list(read([write("d", data)]))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        list(read(["nowhere.json"]))


# ---- folders and standard input


def test_a_folder(write: Any, tmp_path: Path) -> None:
    write("dumps/b/2.jsonl", line(2))
    write("dumps/a.jsonl", line(1))
    write("dumps/b/3.gz", gzip.compress(line(3)))
    write("dumps/.hidden/4.jsonl", line(4))
    write("dumps/.5.jsonl", line(5))
    write("dumps/README.md", b"# Dumps\n")
    write("dumps/b/empty", b"")
    (tmp_path / "dumps" / "broken").symlink_to("nowhere")
    (tmp_path / "dumps" / "c").symlink_to("b")
    found = list(read(["dumps"]))
    assert names(found) == ["span 1", "span 2", "span 3"]
    assert {span.where for span in spans(found)} == {"dumps/a.jsonl", "dumps/b/2.jsonl", "dumps/b/3.gz"}
    assert sorted((note.where, note.why) for note in skipped(found)) == [
        ("dumps/README.md", "no telemetry of a known format"),
        ("dumps/b/empty", "holds no spans"),
        ("dumps/broken", "no regular file"),
        ("dumps/c", "a link to a folder is not followed"),
    ]


def test_a_folder_without_telemetry_is_an_error(write: Any) -> None:
    write("dumps/README.md", b"# Dumps\n")
    reader = read(["dumps"])
    assert [note.where for note in next(reader).skipped] == ["dumps/README.md"]
    with pytest.raises(InputError, match="dumps: no file in this folder holds spans"):
        next(reader)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"^dumps: no file in this folder holds spans \(is this the file"),
        (
            {"a": b"{}", "b": b"# Notes"},
            r"holds spans: dumps/a: no telemetry .*, and 1 more \(known are otlp",
        ),
        (
            {"a": b"# Notes", "b": b'{"resourceSpans": ['},
            r"holds spans: dumps/b:1: cut off.*, and 1 more \(is this",
        ),
        ({"a": b"SQLite format 3\0"}, r"dumps/a: an SQLite database \(.*opencode export SESSION"),
    ],
)
def test_a_folder_without_telemetry_says_what_is_in_it(
    files: dict[str, bytes], message: str, write: Any, tmp_path: Path
) -> None:
    (tmp_path / "dumps").mkdir()
    for name, data in files.items():
        write(f"dumps/{name}", data)
    with pytest.raises(InputError, match=message):
        list(read(["dumps"]))


@pytest.mark.parametrize(
    "text",
    [
        b'10.0.0.1 - - [30/Nov/2026:10:01:00 +0100] "POST /v1 HTTP/1.1" 200 {"model": "m"}\n',
        b'[2026-11-30] DEBUG: Request options: {\n  "model": "m",\n  "n": [\n    {"a": 1}\n  ]\n}\n',
        b'request={"model": "m"}\n',
    ],
)
def test_lines_that_go_on_as_json_are_told_as_such(text: bytes, write: Any) -> None:
    message = r"^app\.log: no telemetry .*: JSON stands behind other text in it \(a line has to be JSON from its first"
    with pytest.raises(InputError, match=message):
        list(read([write("app.log", text * 50)]))


def test_of_a_file_that_cannot_be_used_it_is_told_how_many_reasons_there_are(write: Any) -> None:
    path = write("d.log", (b"noise\n" + b'{"type": 1}\n') * 3000)
    with pytest.raises(InputError, match=r"^d\.log:1: no JSON, and 5,999 more$"):
        list(read([path]))


class _Pipe(io.RawIOBase):
    """A stream that cannot be rewound and gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, self._rest = self._rest[: min(7, len(buffer))], self._rest[7:]
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize(
    "name", ["trace.jsonl", "trace.json", "trace.jsonl.gz", "trace.binpb", "trace.binpb.gz"]
)
def test_standard_input(name: str) -> None:
    data = (DATA / name).read_bytes()
    piped = list(read(["-"], stdin=io.BufferedReader(_Pipe(data))))
    assert {batch.source for batch in piped} == {"<stdin>"}
    assert list(read(["-"], stdin=io.BytesIO(data))) == piped
    assert len(spans(piped)) == 3
    assert spans(piped)[0].where.startswith("<stdin>")


def test_a_pipe_that_holds_more_than_is_looked_at() -> None:
    data = b"\n".join(line(n, text="x" * 1000) for n in range(1, 101))
    assert len(data) > interface.HEAD
    assert names(list(read(["-"], stdin=io.BufferedReader(_Pipe(data))))) == [
        f"span {n}" for n in range(1, 101)
    ]


def test_standard_input_that_is_empty() -> None:
    with pytest.raises(InputError, match="<stdin>: holds no spans"):
        list(read(["-"], stdin=io.BytesIO()))


def test_files_are_read_one_after_the_other(write: Any) -> None:
    found = list(read([write("b", line(1)), "-", Path(write("a", line(3)))], stdin=io.BytesIO(line(2))))
    assert [batch.source for batch in found] == ["b", "<stdin>", "a"]
    assert names(found) == ["span 1", "span 2", "span 3"]


# ---- how it reads


def test_lines_come_one_by_one(write: Any) -> None:
    path = write("d.jsonl", line(1) + b"\n" + line(2) + b"\n" + b"{" * 100)
    reader: Iterator[Batch] = read([path])
    assert names([next(reader)]) == ["span 1"]
    shutil.copy(path, "other")
    assert names(list(reader)) == ["span 2"]


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(on: bool, write: Any) -> None:
    path = write("d.jsonl", line(1) + b"\n" + line(2))
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        for _ in read([path]):
            assert gc.isenabled() is on
        assert gc.isenabled() is on
        with pytest.raises(InputError):
            list(read(["nowhere"]))
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()


def test_a_format_is_one_value_more(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON by its keys, bytes by their head, an envelope that holds several streams."""
    span = spans(list(read([write("s", line(9))])))[0]
    wrapped = interface.JsonFormat(
        "wrapped",
        lambda document: isinstance(document, list) and document[:1] == ["wrapped"],
        lambda document, where, skipped: interface.Records([span] * document[1]),
    )
    stars = interface.BytesFormat(
        "stars",
        lambda head: head.startswith(b"*"),
        lambda stream, where, skipped: (interface.Records([span]) for _ in stream),
    )
    halves = interface.Envelope(
        "halves",
        lambda head: b"|" in head,
        lambda stream, where, skipped: (
            interface.Inner(f"{where}, half {n}", io.BytesIO(half))
            for n, half in enumerate(stream.read().split(b"|"))
        ),
    )
    monkeypatch.setattr(detection, "FORMATS", (halves, stars, wrapped, *detection.FORMATS))
    found = list(read([write("d", b'*\n*\n|["wrapped", 2]|' + line(1) + b"|{")]))
    assert [(batch.format, len(batch.spans)) for batch in found] == [
        ("stars+halves", 1),
        ("stars+halves", 1),
        ("wrapped+halves", 2),
        ("otlp-json+halves", 1),
        ("otlp-json+halves", 0),
    ]
    assert spans(found)[-1].where == "d, half 2"
    assert [note.where for note in skipped(found)] == ["d, half 3:1"]


def test_a_file_of_another_format_than_was_named(write: Any) -> None:
    with pytest.raises(InputError, match=r"^d: not in the format that was named, zipkin \(name none"):
        list(read([write("d", line(1))], format="zipkin"))
