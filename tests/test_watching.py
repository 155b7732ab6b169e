"""``otelctx watch``: what is new is heard once, figures are those of ``analyze``, and the terminal stays whole."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import otel_ctx
from otel_ctx.engine import LiveEngine, Settings
from otel_ctx.errors import SettingError
from otel_ctx.live import tailing
from otel_ctx.live.listening import Listening
from otel_ctx.live.tailing import Following
from otel_ctx.outputs.escape import cells
from otel_ctx.outputs.text.board import board
from otel_ctx.outputs.text.layout import plain
from otel_ctx.outputs.views.board import Board, Row
from otel_ctx_cli.main import main
from tests.exported import chat

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"
LINES = gzip.decompress(DEMO.read_bytes()).splitlines(keepends=True)
TRANSCRIPT = ROOT / "tests" / "data" / "transcripts" / "claude-code-compact" / "session.jsonl.gz"


def expected(*paths: Path) -> dict[str, tuple[Any, ...]]:
    """By conversation, as ``analyze`` has it."""
    report = otel_ctx.analyze(list(paths))
    return {
        c.id: (c.usage_last, c.limit, c.headroom_turns, c.band, sum(r.wasted for r in report.calls if r.conversation == c.id))
        for c in report.conversations
    }  # fmt: skip


def shown(rows: list[Row]) -> dict[str, tuple[Any, ...]]:
    return {r.conversation: (r.usage, r.limit, r.turns_left, r.band, r.lost) for r in rows}


# ---- files


def test_a_dump_is_followed_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump, amounts = tmp_path / "dump.jsonl", []
    read = tailing.read

    def counted(paths: Any, *, stdin: Any, **more: Any) -> Any:
        amounts.append(len(stdin.getvalue()))
        return read(paths, stdin=stdin, **more)

    monkeypatch.setattr(tailing, "read", counted)
    followed = Following([str(dump)], Settings())
    assert (followed.look(), followed.note) == (False, f"waiting for {dump}")
    for line in LINES:
        with dump.open("ab") as stream:
            stream.write(line)
        followed.look()

    assert followed.follows
    assert amounts == [len(line) for line in LINES]  # what is new, and nothing else
    assert len(followed.board.fresh) == 32
    assert shown(followed.board.rows()) == expected(DEMO)


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    whole = b"".join(LINES)
    followed = Following([str(dump)], Settings())
    dump.write_bytes(whole[: len(whole) - 200])
    followed.look()
    before = len(followed.board.fresh)
    dump.write_bytes(whole)
    os.utime(dump, ns=(1, 1))
    followed.look()

    assert before < len(followed.board.fresh) == 32
    assert shown(followed.board.rows()) == expected(DEMO)


def test_a_file_that_begins_anew_is_read_from_its_start(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    followed = Following([str(dump)], Settings())
    dump.write_bytes(b"".join(LINES[:-2]))
    followed.look()
    dump.unlink()
    followed.look()
    dump.write_bytes(b"".join(LINES))
    followed.look()

    assert len(followed.board.fresh) == 32


@pytest.mark.parametrize("kind", ["transcript", "gzip", "pretty"])
def test_what_makes_sense_as_a_whole_is_read_as_a_whole(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    if kind == "transcript":
        lines = gzip.decompress(TRANSCRIPT.read_bytes()).splitlines(keepends=True)
        parts = [b"".join(lines[: len(lines) // 2]), b"".join(lines)]
    elif kind == "gzip":
        parts = [gzip.compress(b"".join(LINES[:5])), DEMO.read_bytes()]
    else:
        parts = [json.dumps(json.loads(line), indent=1).encode() + b"\n" for line in LINES[:2]]
        parts[1] = parts[0] + parts[1]
    followed = Following([str(path)], Settings())
    heard = []
    for part in parts:
        path.write_bytes(part)
        assert followed.look()
        heard.append(len(followed.board.fresh))
    assert not followed.look()

    assert not followed.follows
    assert 0 < heard[0] < heard[1] == len(otel_ctx.analyze(path).calls)
    assert shown(followed.board.rows()) == expected(path)


def test_a_folder_with_content_in_a_file_of_its_own(tmp_path: Path, corpus_case: Any) -> None:
    case = corpus_case("otel-genai-openai-responses-spanonly-stateful")
    followed = Following([str(tmp_path)], Settings())
    for file in case.files:
        (tmp_path / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
    (tmp_path / ".part").write_text("half a file")
    followed.look()

    assert shown(followed.board.rows()) == expected(*case.files)
    assert followed.follows


def test_another_format_in_the_folder(tmp_path: Path) -> None:
    followed = Following([str(tmp_path)], Settings())
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES))
    followed.look()
    assert followed.follows
    (tmp_path / "b.jsonl").write_bytes(gzip.decompress(TRANSCRIPT.read_bytes()))
    followed.look()

    assert not followed.follows
    assert len(followed.board.fresh) == 32 + 15
    assert shown(followed.board.rows()) == expected(tmp_path)


# ---- the board


@settings(max_examples=20)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=14), st.booleans())
def test_in_whatever_chunks_it_arrives(sizes: list[int], settles: bool) -> None:
    spans = [s for b in otel_ctx.read([DEMO]) for s in b.spans]
    engine, seen = LiveEngine(Settings(text_cap=None)), Board()
    at = 0
    for size in [*sizes, len(spans)]:
        seen.hear(engine.feed(spans[at : at + size]), settled=False)
        at += size
        if settles:
            seen.hear(engine.advance(max(s.end_unix_nano for s in spans[:at])), settled=True)
    seen.hear(engine.drain(), settled=True)

    assert shown(seen.rows()) == expected_demo()
    assert len(seen.fresh) == len({r.call.id for r in seen.fresh}) == 32


_DEMO: dict[str, tuple[Any, ...]] = {}


def expected_demo() -> dict[str, tuple[Any, ...]]:
    if not _DEMO:
        _DEMO.update(expected(DEMO))
    return _DEMO


def test_the_longest_silent_leave_first() -> None:
    seen = Board(most=1)
    seen.replace(otel_ctx.analyze(DEMO).calls)

    assert [r.service for r in seen.rows()] == ["larkspur-support"]


@given(st.integers(20, 200), st.integers(2, 60))
def test_no_line_is_wider_than_the_screen_nor_too_many(width: int, height: int) -> None:
    rows = [
        Row("c", "服务\x1b[2J" * 9, "agent", "m", 7, 900, 1_000, 3.0, "critical", 500, (0.5, 0.5), 0.3,
            (6, "system[0]", "x"), 1)
    ] * 30  # fmt: skip
    lines = [plain(one) for one in board(rows, "dump" * 30, "a note\x1b[2J", width, height)]

    assert len(lines) <= height
    assert all(cells(one) <= width for one in lines)
    assert "\x1b" not in "".join(lines)


# ---- OTLP


@contextmanager
def listening() -> Iterator[Listening]:
    heard = Listening("127.0.0.1:0", Settings())
    try:
        yield heard
    finally:
        heard.close()


def post(url: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(url, body, {k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize("packed", [False, True])
def test_json_that_is_sent_here(packed: bool) -> None:
    encoding = {"content_encoding": "gzip"} if packed else {}
    with listening() as heard:
        for line in LINES:
            body = gzip.compress(line) if packed else line
            assert post(f"{heard.url}/v1/traces", body, content_type="application/json", **encoding) == 200
        assert heard.look()

    assert shown(heard.board.rows()) == expected_demo()


@pytest.mark.parametrize(("lines", "status"), [(LINES[:2], 200), ([b"{"], 400)])
def test_a_body_in_chunks(lines: list[bytes], status: int) -> None:
    """As an exporter sends it that packs on the fly."""
    with listening() as heard:
        connection = HTTPConnection(heard.url.removeprefix("http://"), timeout=30)
        headers = {
            "content-type": "application/json",
            "content-encoding": "gzip",
            "transfer-encoding": "chunked",
        }
        packed = gzip.compress(b"".join(lines))
        parts = [packed[i : i + 1_000] for i in range(0, len(packed), 1_000)]
        connection.request("POST", "/v1/traces", iter(parts), headers, encode_chunked=True)
        assert connection.getresponse().status == status
        connection.close()
        heard.look()
        assert len(heard.board.fresh) == (6 if status == 200 else 0)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("", b"400"),
        ("content-length: -1\r\n", b"400"),
        ("content-length: 99999999999\r\n", b"413"),
        ("transfer-encoding: chunked\r\n", b"400"),
    ],
)
def test_a_size_that_cannot_be(head: str, status: bytes) -> None:
    with listening() as heard:
        host, _, port = heard.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as sender:
            sender.sendall(
                f"POST /v1/traces HTTP/1.1\r\nHost: x\r\ncontent-type: application/json\r\n{head}\r\nxyz\r\n".encode()
            )
            assert sender.recv(100).split()[1] == status


def test_an_sdk_sends_protobuf() -> None:
    with listening() as heard:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{heard.url}/v1/traces")))
        chat(provider, 1)
        chat(provider, 2)
        provider.shutdown()
        heard.look()

    assert [(r.turn, r.usage) for r in heard.board.rows()] == [(2, 20)]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/metrics", b"{}", {"content_type": "application/json"}, 200),
        ("/", b"{}", {"content_type": "application/json"}, 404),
        ("/v1/traces", b"{}", {"content_type": "text/plain"}, 415),
        ("/v1/traces", b"{", {"content_type": "application/json"}, 400),
        ("/v1/traces", b"\x1f\x8bx", {"content_type": "application/json", "content_encoding": "gzip"}, 400),
        ("/v1/traces", b"{}", {"content_type": "application/json", "content_encoding": "br"}, 400),
    ],
)  # fmt: skip
def test_what_it_does_not_take(path: str, body: bytes, headers: dict[str, str], status: int) -> None:
    with listening() as heard:
        assert post(heard.url + path, body, **headers) == status
        assert not heard.look()


def test_a_request_that_unfolds_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from otel_ctx.live import listening as module

    monkeypatch.setattr(module, "_MOST", 1_000)
    headers = {"content_type": "application/json"}
    with listening() as heard:
        packed = gzip.compress(bytes(100_000))
        assert len(packed) < 1_000
        assert post(f"{heard.url}/v1/traces", packed, content_encoding="gzip", **headers) == 400
        assert post(f"{heard.url}/v1/traces", bytes(1_001), **headers) == 413
        assert not heard.look()


@pytest.mark.parametrize("place", ["0.0.0.0:4318", "example.org:80", "127.0.0.1:x", "127.0.0.1:70000", ""])
def test_where_it_does_not_listen(place: str) -> None:
    with pytest.raises(SettingError):
        Listening(place, Settings())


def test_a_port_that_is_taken_is_told_with_the_way_out() -> None:
    with listening() as heard:
        result = CliRunner().invoke(main, ["watch", "--otlp", heard.url.removeprefix("http://"), "--plain"])

    assert result.exit_code == 2
    assert "another port: --otlp 127.0.0.1:4319" in result.stderr


# ---- the command


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "Usage"),
        (["--plain"], "A PATH, or --otlp"),
        (["x", "--otlp", "127.0.0.1:0"], "A PATH, or --otlp"),
        (["-"], "standard input has no later"),
        (["--otlp", "127.0.0.1:0", "--format", "codex"], "do not go with --otlp"),
    ],
)
def test_arguments_that_do_not_fit(args: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["watch", *args])

    assert result.exit_code == 2
    assert words in result.output


def wait_for(what: Callable[[], str], word: str) -> str:
    """What ``what`` says once ``word`` is in it; a failure shows what it said last."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        said = what()
        if word in said:
            return said
        time.sleep(0.1)
    raise AssertionError(f"no {word!r} in:\n{what()}")


def test_lines_where_stdout_is_no_terminal(tmp_path: Path) -> None:
    dump, out = tmp_path / "dump.jsonl", tmp_path / "out"
    dump.write_bytes(b"".join(LINES))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}", "NO_COLOR": "1"}
    with out.open("wb") as stream:
        running = subprocess.Popen(
            [sys.executable, "-m", "otel_ctx_cli", "watch", str(dump)],
            env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            wait_for(out.read_text, "larkspur-support  turn 24  11,512 tokens  9% full")
        finally:
            running.send_signal(2)
            _, said = running.communicate(timeout=60)

    assert running.returncode == 0, said.decode()
    assert len(out.read_text().splitlines()) == 32
    assert b"Traceback" not in said


class Terminal:
    """A shell in tmux."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-f", os.devnull, "-S", str(folder / "tmux")]
        environment = (
            f"-u LINES -u COLUMNS -u NO_COLOR PYTHONPATH={ROOT}:{ROOT / 'cli'} PS1='$ ' TERM=screen-256color"
        )
        self.run("new-session", "-d", "-x", "100", "-y", "20", f"env {environment} /bin/sh")

    def run(self, *args: str) -> str:
        done = subprocess.run([*self._tmux, *args], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def type(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def close(self) -> None:
        self.run("kill-server")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    with tempfile.TemporaryDirectory(prefix="t") as folder:  # short: the path of a socket may not be long
        made = Terminal(Path(folder))
        yield made
        made.close()


@pytest.mark.parametrize("end", ["q", "C-c", "TERM"])
def test_the_full_screen(end: str, terminal: Terminal, tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"".join(LINES[:2]))
    command = f"{shlex.quote(sys.executable)} -m otel_ctx_cli watch {dump}; echo ended with $?"
    terminal.type(command, "Enter")
    first = wait_for(terminal.screen, "turns left")
    with dump.open("ab") as stream:
        stream.writelines(LINES[2:])
    grown = wait_for(terminal.screen, "11,512")

    assert "echo ended" not in first  # a screen of its own
    assert "24,009 tokens billed again" in grown
    assert "broke at turn 8: system[0] (volatile_prefix)" in grown
    assert "q quits" in grown
    if end == "TERM":
        pane = terminal.run("display-message", "-p", "#{pane_pid}").strip()
        child = Path(f"/proc/{pane}/task/{pane}/children")
        if not child.exists():
            pytest.skip("no /proc here")
        os.kill(int(child.read_text().split()[0]), 15)
    else:
        terminal.type(end)
    after = wait_for(terminal.screen, "ended with 0")
    assert "q quits" not in after
    terminal.type("echo sh''own", "Enter")  # what is typed is seen again
    assert "echo sh''own" in wait_for(terminal.screen, "\nshown")


def test_rich_is_asked_for_only_where_it_draws() -> None:
    code = "import sys, otel_ctx_cli.watching; print('rich' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"
