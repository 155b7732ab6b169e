"""What a gateway knows outlives its restart, without a word of any prompt."""

from __future__ import annotations

import gzip
import json
import logging
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import xxhash
from google.rpc import status_pb2

from otel_ctx.engine import LiveEngine
from otel_ctx.engine.settings import Settings
from otel_ctx.inputs.otlp_json import logs_of, spans_of
from otel_ctx.live.gateway import state
from otel_ctx.live.gateway.delivered import Delivered, key_of
from otel_ctx.model import LogRecord, Span, Telling, UsageClaim
from tests.gateway_rig import SECOND, GatewayRig, HttpDownstream, Reply, chat, ours, plain, request, until
from tests.prompt_runs import TEXT, runs, strings

CORPUS = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parent.parent


@pytest.fixture
def down() -> Iterator[HttpDownstream]:
    with HttpDownstream() as downstream:
        yield downstream


def now() -> int:
    return time.time_ns() - 2500 * SECOND


def total(metrics: dict[str, dict[tuple[str, ...], float]], name: str) -> float:
    return sum(metrics.get(name, {}).values())


# ---- over a restart


def test_conversations_go_on_and_deliveries_are_known(down: HttpDownstream, tmp_path: Path) -> None:
    start = now()
    first, second = request(chat(1, 0, start=start), plain(1)), request(chat(1, 1, start=start))
    with GatewayRig(down.url, state_dir=str(tmp_path / "state")) as rig:
        rig.post("/v1/traces", first)
        assert total(rig.metrics(), "otelctx_calls_total") == 1
    with GatewayRig(down.url, state_dir=str(tmp_path / "state")) as rig:
        rig.post("/v1/traces", first)
        rig.post("/v1/traces", second)
        counted = rig.settled()
        assert total(counted, "otelctx_calls_total") == 1
        # the call of before had not settled when the first process ended: its content counts here
        assert total(counted, "otelctx_context_segment_tokens_total") > 0
    sent = down.of("traces")
    assert sent[0] == sent[1]
    one, _, two = (ours(s) for s in down.spans() if s.name.startswith("chat"))
    assert two["otelctx.conversation.relation"] == "continues"
    assert two["otelctx.conversation.turn"] == 2
    assert two["otelctx.conversation.id"] == one["otelctx.conversation.id"]


def test_a_finding_counts_once_in_a_conversation_over_a_restart(down: HttpDownstream, tmp_path: Path) -> None:
    found = []
    for turn in range(2):
        with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
            rig.post("/v1/traces", request(chat(1, turn)))
            settled = rig.settled()["otelctx_findings_total"]
            found.append({labels for labels, n in settled.items() if n})
    assert found[0]
    assert not found[0] & found[1]


def test_tenants_keep_their_states(down: HttpDownstream, tmp_path: Path) -> None:
    for turn in range(2):
        with GatewayRig(down.url, state_dir=str(tmp_path), tenant_header="x-tenant") as rig:
            for n, tenant in enumerate("ab"):
                rig.post("/v1/traces", request(chat(n, turn, start=now())), x_tenant=tenant)
    relations = [ours(s)["otelctx.conversation.relation"] for s in down.spans()]
    assert relations == ["new", "new", "continues", "continues"]


def test_it_is_saved_now_and_then_so_that_a_kill_loses_little(down: HttpDownstream, tmp_path: Path) -> None:
    rig = GatewayRig(down.url, state_dir=str(tmp_path), save_interval=1)
    rig.post("/v1/traces", request(chat(1, 0, start=now())))
    saved = rig.metrics()["otelctx_gateway_state_saves_total"]["true",]
    until(lambda: rig.metrics()["otelctx_gateway_state_saves_total"]["true",] > saved + 1)
    rig.kill()
    with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
        rig.post("/v1/traces", request(chat(1, 1, start=now())))
    assert ours(down.spans()[1])["otelctx.conversation.relation"] == "continues"


def test_deliveries_are_known_for_their_time_and_no_longer() -> None:
    clock = [0.0]
    first = Delivered(300, 1 << 20, lambda: clock[0])
    first.put(1, b"added" * 20)
    clock[0] = 299
    first.put(2, b"")
    assert first.get(1) == b"added" * 20
    then = Delivered(300, 1 << 20, lambda: clock[0])
    then.restore(pickle.loads(pickle.dumps(first.snapshot())), 10)
    assert (then.get(1), then.get(2), then.get(3)) == (b"added" * 20, b"", None)
    clock[0] += 289
    assert then.get(2) == b""  # 299 s after it was put
    clock[0] += 400
    assert (then.get(1), then.get(2)) == (None, None)
    late = Delivered(300, 1 << 20, lambda: clock[0])
    late.restore(first.snapshot(), 100_000)
    assert (late.get(1), late.get(2)) == (None, None)


def test_deliveries_are_bounded() -> None:
    many = Delivered(300, 1 << 20, lambda: 0.0)
    for n in range(20_000):
        many.put(key_of("", n.to_bytes(16, "big"), b"s" * 8), b"x" * 40)
    assert len(many) < 8000
    assert many.early > 10_000
    assert many.get(key_of("", (19_999).to_bytes(16, "big"), b"s" * 8)) == b"x" * 40


# ---- files that cannot be used


def torn(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


def of_another_version(content: bytes) -> bytes:
    return content.replace(b'"version": "', b'"version": "99.', 1)


def of_other_fields(content: bytes) -> bytes:
    return content.replace(b'"layout": "', b'"layout": "0', 1)


def foreign(content: bytes) -> bytes:
    return b"a photograph" * 100


@pytest.mark.parametrize(
    "damage", [torn, flipped, of_another_version, of_other_fields, foreign, lambda c: b""]
)
def test_a_file_that_cannot_be_used_is_set_aside(
    down: HttpDownstream, tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
        rig.post("/v1/traces", request(chat(1, 0)))
    file = tmp_path / "gateway.state"
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)
    with (
        caplog.at_level(logging.WARNING, logger="otel_ctx"),
        GatewayRig(down.url, state_dir=str(tmp_path)) as rig,
    ):
        assert not file.exists()
        assert rig.post("/v1/traces", request(chat(1, 1))).status_code == 200
    assert len([r for r in caplog.records if "saved state is not used" in r.message]) == 1
    assert (tmp_path / "gateway.aside").read_bytes() == damaged
    assert state.plain(file.read_bytes())


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo evil",)


def test_a_named_tuple_of_other_fields_has_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = state._layout.__wrapped__
    before = layout()
    monkeypatch.setattr(UsageClaim, "_fields", UsageClaim._fields[:-1])
    assert layout() != before


@pytest.mark.parametrize(("said", "kept"), [("the prompt is too long: my secret", "context_length_exceeded"),
                                            ("my secret", "error"), ("RateLimitError", "RateLimitError")])  # fmt: skip
def test_the_words_of_an_error_are_not_written(said: str, kept: str) -> None:
    writing = state._Writing({})
    writing.dump(Telling("genai", "call", "t", "s", error=said))
    assert b"secret" not in writing.out.getvalue()
    assert pickle.loads(writing.out.getvalue()).error == kept


@pytest.mark.parametrize("thing", [Evil(), os.system, subprocess.Popen, Path("/"), state.Store, getattr])
def test_a_file_that_means_harm_is_not_run(thing: Any) -> None:
    """One with the right head: who can write it can write the checksum, too."""
    good = state.packed({}, {})
    head = json.loads(good.split(b"\n")[1])
    body = zlib.compress(pickle.dumps(thing))
    head["digest"] = xxhash.xxh3_128_hexdigest(body)
    content = good.split(b"\n")[0] + b"\n" + json.dumps(head).encode() + b"\n" + body
    with pytest.raises(state.StateError):
        state.unpacked(content, dict)


# ---- disks


def test_a_full_disk_is_counted_and_hurts_nothing(
    down: HttpDownstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
        rig.post("/v1/traces", request(chat(1, 0, start=now())))
    before = (tmp_path / "gateway.state").read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state.os, "fsync", full)
    with GatewayRig(down.url, state_dir=str(tmp_path), save_interval=1) as rig:
        until(lambda: rig.metrics()["otelctx_gateway_state_saves_total"]["false",] >= 2)
        assert rig.post("/v1/traces", request(chat(1, 1, start=now()))).status_code == 200
        assert rig.metrics()["otelctx_gateway_state_saves_total"]["true",] == 0
    assert "No space left on device" in caplog.text
    assert (tmp_path / "gateway.state").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gateway.state", "lock"]


def test_only_the_user_can_read_it_and_only_one_gateway_has_it(down: HttpDownstream, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "state"
    with (
        GatewayRig(down.url, state_dir=str(folder)),
        pytest.raises(OSError, match="in use by another gateway"),
    ):
        state.Store(str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "gateway.state").stat().st_mode) == 0o600


# ---- the engine's state


def records(name: str) -> tuple[list[Span], list[LogRecord]]:
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for path in sorted((CORPUS / name).glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                document = json.loads(line)
                if isinstance(document, dict):
                    spans += spans_of(document, "")
                    logs += logs_of(document, "")
    return spans, logs


NAMES = sorted(p.name for p in CORPUS.iterdir() if (p / "traces.jsonl.gz").exists())


@pytest.mark.parametrize("name", NAMES[::2])
def test_an_engine_that_was_written_and_read_says_the_same(name: str) -> None:
    """Of half a dump and then the other half; and what was written holds no words of a prompt."""
    spans, logs = records(name)
    half = len(spans) // 2
    make = lambda: LiveEngine(Settings(tokenizer="bytes", text_cap=None))  # noqa: E731
    one = make()
    one.feed(spans[:half], logs)
    content = state.packed(one.state(), one.outside)
    two = make()
    restored, _ = state.unpacked(content, lambda: two.outside)
    two.restore(restored)
    settled = []
    for engine in (one, two):
        said = [*engine.feed(spans[half:]), *engine.drain()]
        settled.append(
            [(s.reading.call.id, s.reading.conversation, s.reading.turn, s.reading.relation) for s in said]
        )
    assert settled[0] == settled[1]
    found = words_of(spans, logs) & runs(state.plain(content).decode("latin-1"))
    assert not {run for run in found if run not in OWN}


OWN = "".join(path.read_text() for path in sorted((ROOT / "otel_ctx").rglob("*.py")))  # what findings say


def words_of(spans: list[Span], logs: list[LogRecord]) -> set[str]:
    out: set[str] = set()
    names: set[str] = set()
    held = [*(s.attributes for s in spans), *(e.attributes for s in spans for e in s.events)]
    values = [*held, *(x for record in logs for x in (record.body, record.attributes))]
    for text in {text for value in values for text in strings(value)}:  # each turn says again what was said
        if len(text) >= TEXT and " " in text:
            out |= {r for r in runs(text.encode().decode("latin-1")) if " " in r.strip()}
        else:
            names |= runs(text.encode().decode("latin-1"))
    return out - names


STRAY = "my patient has a rare disease and asks for the third time what"
"""Where a name or an id should be."""


def test_what_is_no_name_is_known_by_its_digest(down: HttpDownstream, tmp_path: Path) -> None:
    """And calls are found to belong together by it, over a restart too."""

    def stray(*turns: int) -> bytes:
        spans = []
        for turn in turns:
            said = chat(1, turn, start=now())
            call = {"type": "tool_call", "id": f"id of {STRAY}", "name": f"tool of {STRAY}", "arguments": {}}
            answered = {"type": "tool_call_response", "id": f"id of {STRAY}", "response": "42"}
            messages = [
                {"role": "user", "parts": [{"type": "text", "content": f"Question {turn}"}]},
                {"role": "assistant", "parts": [call]},
                {"role": "tool", "parts": [answered]},
                {"role": f"role of {STRAY}", "parts": [{"type": "text", "content": "Well"}]},
            ]
            more = {
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.conversation.id": f"conversation of {STRAY}",
                "gen_ai.agent.name": f"agent of {STRAY}",
                "gen_ai.response.id": f"response of {STRAY}",
                "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": f"tool of {STRAY}"}]),
            }
            spans.append(replace(said, attributes=said.attributes | more))
        return request(*spans)

    for turn in range(2):
        with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
            rig.post("/v1/traces", stray(turn))
        kept = state.plain((tmp_path / "gateway.state").read_bytes())
        assert b"patient" not in kept
        assert kept.count(b"(no name ") >= 5
    one, two = (ours(span) for span in down.spans())
    assert two["otelctx.conversation.id"] == one["otelctx.conversation.id"]


def test_a_conversation_of_many_turns_is_written() -> None:
    """Each history refers to the one before it: a plain pickle would go as deep."""
    turns = 400
    spans = [chat(1, turn, words=0) for turn in range(turns)]
    engine = LiveEngine(Settings(tokenizer="bytes"))
    engine.feed(spans)
    engine.drain()
    content = state.packed(engine.state(), engine.outside)
    other = LiveEngine(Settings(tokenizer="bytes"))
    other.restore(state.unpacked(content, lambda: other.outside)[0])
    [said] = other.feed([chat(1, turns, words=0)])
    assert (said.reading.turn, said.reading.relation) == (turns + 1, "continues")


@pytest.mark.parametrize("aside", [None, "file", "folder"])
def test_a_folder_in_the_place_of_the_state_is_set_aside(
    down: HttpDownstream, tmp_path: Path, aside: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gateway.state").mkdir()
    (tmp_path / "gateway.state" / "theirs").write_text("kept")
    if aside == "file":
        (tmp_path / "gateway.aside").write_text("kept")
    elif aside == "folder":
        (tmp_path / "gateway.aside").mkdir()
    with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
        assert rig.post("/v1/traces", request(chat(1, 0))).status_code == 200
    assert "the saved state is not used: it cannot be read (Is a directory)" in caplog.text
    assert "pass through unchanged" not in caplog.text
    assert (tmp_path / "gateway.aside1" / "theirs").read_text() == "kept"
    assert (tmp_path / "gateway.state").is_file()


@pytest.mark.parametrize("name", ["gateway.state", "gateway.new"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(
    down: HttpDownstream, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / name)
    with GatewayRig(down.url, state_dir=str(tmp_path)) as rig:
        assert rig.post("/v1/traces", request(chat(1, 0))).status_code == 200
        if name == "gateway.new":  # an error, and then it is gone
            rig.run(rig.gateway.desk.run(rig.gateway._save))
    assert (tmp_path / "gateway.state").is_file()
    assert ("it is no regular file" in caplog.text) is (name == "gateway.state")


# ---- a process


def test_what_hangs_when_the_drain_is_over_is_to_come_again(tmp_path: Path) -> None:
    go_on = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        go_on.wait(60)
        return Reply()

    with HttpDownstream(reply) as down:
        command = [sys.executable, "-m", "otel_ctx_cli", "gateway", "--forward", down.url, "--grpc", "off"]
        command += ["--http", "127.0.0.1:0", "--admin", "off", "--drain-timeout", "100ms"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
            assert process.stderr is not None
            port = process.stderr.readline().split("http 127.0.0.1:")[1].split(";")[0]
            with ThreadPoolExecutor(1) as pool:
                under_way = pool.submit(
                    httpx.post,
                    f"http://127.0.0.1:{port}/v1/traces",
                    content=request(chat(1, 0)),
                    headers={"content-type": "application/x-protobuf"},
                    trust_env=False,
                    timeout=60,
                )
                down.wait_for(1)
                process.send_signal(signal.SIGTERM)
                answer = under_way.result(60)
            rest = process.stderr.read()
            assert process.wait(30) == 0
        go_on.set()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert status_pb2.Status.FromString(answer.content).message == "the gateway is shutting down"
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].endswith("otelctx gateway: stopped")


def test_a_process_drains_and_saves_on_sigterm(down: HttpDownstream, tmp_path: Path) -> None:
    down.reply = lambda path, body: Reply(delay=0.3)
    command = [sys.executable, "-m", "otel_ctx_cli", "gateway", "--forward", down.url, "--grpc", "off"]
    command += ["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir", str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "receives OTLP on http 127.0.0.1:" in line
        assert f"sends on to {down.url}" in line
        port = line.split("http 127.0.0.1:")[1].split(";")[0]
        admin = line.rsplit("127.0.0.1:", 1)[1].strip()
        assert httpx.get(f"http://127.0.0.1:{admin}/readyz", trust_env=False).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(
                httpx.post,
                f"http://127.0.0.1:{port}/v1/traces",
                content=request(chat(1, 0)),
                headers={"content-type": "application/x-protobuf"},
                trust_env=False,
            )
            down.wait_for(1)
            process.send_signal(signal.SIGTERM)
            assert under_way.result(30).status_code == 200
        rest = process.stderr.read()
        assert process.wait(30) == 0
        assert [line.split("otelctx gateway: ")[-1] for line in rest.splitlines()] == [
            "stops, and finishes what it has taken in",
            "stopped",
        ]
        assert (tmp_path / "gateway.state").exists()
