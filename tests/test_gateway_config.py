"""The gateway's settings: one file, or flags of the same names; what cannot be used is named with its line."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from otel_ctx.errors import SettingError
from otel_ctx.live.gateway.config import GatewayConfig, config_of, settings
from otel_ctx.live.gateway.config_file import Given, read_file
from otel_ctx.live.gateway.forwards import Forward, forward_of
from otel_ctx.live.gateway.http_server import HttpServer
from otel_ctx.live.gateway.run import run
from otel_ctx.live.gateway.values import Address
from otel_ctx_cli.main import main

FULL = """
grpc: 127.0.0.1:5001
http: off
admin: "[::1]:5002"
forward:
  - url: grpc://127.0.0.1:4317
    name: first
    headers: {api-key: "${env:KEY}"}
    timeout: 500ms
  - https://example.org/otlp
max_request_bytes: 8m
max_in_flight_bytes: 1g
analysis_timeout: 2s
tenant_header: X-Scope-OrgID
redelivery_window: 15m
windows: my-model=200k
ignore: headroom_low
conversations: 500
"""


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "gateway.yaml"
    path.write_text(text)
    return str(path)


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k1")
    config = config_of(read_file(file(tmp_path, FULL)), {})
    assert config.grpc == Address("127.0.0.1", 5001)
    assert config.http is None
    assert config.admin == Address("::1", 5002)
    first, second = config.forward
    assert (first.name, first.headers, first.timeout, first.target) == (
        "first",
        {"api-key": "k1"},
        0.5,
        "127.0.0.1:4317",
    )
    assert (second.url, second.name, second.tls, second.is_grpc) == (
        "https://example.org/otlp",
        "example.org",
        True,
        False,
    )
    assert (first.max_request_bytes, second.max_request_bytes) == (4_000_000, 0)
    assert (config.max_request_bytes, config.max_in_flight_bytes) == (8 << 20, 1 << 30)
    assert (config.analysis_timeout, config.redelivery_window) == (2.0, 900.0)
    assert config.tenant_header == "x-scope-orgid"
    assert config.analysis.windows == {"my-model": 200_000}
    assert (config.analysis.conversations, config.analysis.ignore) == (500, {"headroom_low"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grpc: 127.0.0.1:1\nport: 3\n", "line 2: there is no setting 'port'"),
        ("forward: x:1\n\ngrpc: 4327\n", "line 3: grpc must be HOST:PORT or off"),
        ("forward: x:1\ngrpc: 1.2.3.4:99999\n", "line 2: grpc must be"),
        ("forward: x:1\ngrpc: off\ngrpc: off\n", "line 3: grpc is there twice"),
        ("forward:\n  - url: x:1\n    timeout: 1s\n    timeout: 2s\n", "line 4: timeout is there twice"),
        ("forward:\n  - url: x:1\n    retries: 3\n", "line 1: forward: there is no 'retries'"),
        ("forward: [3]\n", "line 1: forward: each must be"),
        ("forward: ftp://x:1\n", "no receiver"),
        ("forward: grpc://x\n", "must be HOST:PORT"),
        ("forward: http://x/v1/traces\n", "without /v1/"),
        ("forward: x:1\nanalysis_timeout: fast\n", "line 2: analysis_timeout must be a time"),
        ("forward: x:1\nmax_request_bytes: true\n", "line 2: max_request_bytes must be a size"),
        ("forward: x:1\nredelivery_window: 1m\n", "line 2: redelivery_window must be a time from 5m"),
        ("forward: x:1\ncert_file: /nowhere\n", "line 2: cert_file must be a file"),
        ("forward: x:1\nignore: nonsense\n", "line 2: ignore must be"),
        ("forward: x:1\nopen: 3\n", "line 2: open must be"),
        (
            "forward: ${env:NOT_THERE_AT_ALL}\n",
            "line 1: the environment variable NOT_THERE_AT_ALL is not set",
        ),
        ("- a\n", "line 1: must be keys and values"),
        ("a: [\n", "no valid YAML"),
        ("forward: !!python/object:os.system x\n", "no value of YAML"),
        ("grpc: off\n", "where to send on to must be said"),
        ("forward: x:1\ngrpc: off\nhttp: off\n", "both off"),
        ("forward: [x:1, x:1]\n", "two have the same name"),
        ("forward: 127.0.0.1:4327\n", "is the gateway itself"),
        ("forward: http://localhost:4328\n", "is the gateway itself"),
        ("forward: x:1\nhttp: 127.0.0.1:9464\n", "is there twice"),
        ("forward: x:1\nmax_in_flight_bytes: 1m\n", "must not be less"),
        ("forward: http://127.0.0.1:notaport\n", "the port of a URL must be a number from 1 to 65535"),
        ("forward: x:70000\n", "the port of a URL must be a number from 1 to 65535"),
        ("forward: 0.0.0.0:4327\n", "grpc://0.0.0.0:4327 is the gateway itself"),
        ("forward: http://[::1]:5000\nhttp: '[::]:5000'\nopen: true\n", "is the gateway itself"),
        ("forward: x:1\nhttp: localhost:4327\n", "the port of 127.0.0.1:4327 is there twice"),
        ("forward: x:1\nhttp: 0.0.0.0:4327\nopen: true\n", "is there twice"),
        ("forward: https://h/otlp?key=s3cret\n", "'https://h/otlp?***' must be without what follows ?"),
        ("forward: http://me:s3cret@h/otlp\n", "'http://***@h/otlp' is no receiver"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingError, match=re.escape(said)) as raised:
        config_of(read_file(file(tmp_path, text)), {})
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "forward", ["127.0.0.2:4327", "0.0.0.0:4317", "collector:4327", "http://x:4327/otlp"]
)
def test_others_with_a_port_of_ours_are_others(forward: str) -> None:
    assert config_of({"forward": Given(forward, "")}, {}).forward


def test_every_setting_is_a_flag_and_says_what_it_is() -> None:
    text = CliRunner().invoke(main, ["gateway", "--help"], terminal_width=200).output
    for name, field in settings().items():
        assert f"--{name.replace('_', '-')}" in text
        assert field.metadata["allowed"]
    own = {f.name for f in fields(GatewayConfig)} - {"analysis", "token"}
    assert own <= settings().keys()


def test_flags_come_before_the_file(tmp_path: Path) -> None:
    path = file(tmp_path, "forward: x:1\ngrpc: 127.0.0.1:5001\n")
    result = CliRunner().invoke(
        main,
        [
            "gateway",
            "--config",
            path,
            "--grpc",
            "127.0.0.1:5009",
            "--forward",
            "y:2",
            "--forward",
            "z:3",
            "--check",
        ],
    )
    assert result.exit_code == 0
    assert "grpc: 127.0.0.1:5009" in result.output
    assert "grpc://y:2" in result.output
    assert "grpc://z:3" in result.output
    assert "x:1" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--check"], "forward: where to send on to must be said"),
        (["--forward", "x:1", "--grpc", "0.0.0.0:1"], "anybody could send"),
        (["--forward", "x:1", "--analysis-timeout", "soon"], "--analysis-timeout: analysis_timeout must be"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_wrong_arguments_end_with_one_sentence(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["gateway", *arguments])
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "target", "tls"),
    [
        ("collector:4317", "collector:4317", False),
        ("grpcs://x.example:443", "x.example:443", True),
        ("http://[::1]:4318", "[::1]:4318", False),
    ],
)
def test_downstreams(value: Any, target: str, tls: bool) -> None:
    to: Forward = forward_of(value)
    assert (to.target, to.tls) == (target, tls)


def test_a_header_line_cannot_be_smuggled() -> None:
    with pytest.raises(SettingError, match="headers"):
        forward_of({"url": "http://x", "headers": {"a\r\nb": "c"}})
    with pytest.raises(SettingError, match="headers"):
        forward_of({"url": "http://x", "headers": {"a": "c\r\nd: e"}})


def test_an_empty_token_file_is_no_token(tmp_path: Path) -> None:
    empty = file(tmp_path, " \n")
    with pytest.raises(SettingError, match="empty"):
        config_of({"forward": Given("x:1", ""), "token_file": Given(empty, "")}, {})


def test_a_token_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"\xff\xfe\x00")
    result = CliRunner().invoke(main, ["gateway", "--forward", "x:1", "--token-file", str(path), "--check"])
    assert (result.exit_code, result.output) == (
        2,
        f"Error: token_file: {path} cannot be read (UnicodeDecodeError)\n",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forward: [&a [*a]]", "a value of it is nested too deeply, or within itself"),
        ("forward: &a {url: *a}", "within itself"),
        ("forward: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("[a, b]: 1", "line 1: a key must be a word"),
        ("forward: {[a]: 1}", "line 1: forward is no value"),
        ("forward: 2024-13-45", "line 1: forward is no value"),
        ("!!python/name:os.system x: 1", "there is no setting"),
    ],
)
def test_yaml_that_no_file_should_have(tmp_path: Path, text: str, said: str) -> None:
    result = CliRunner().invoke(main, ["gateway", "--config", file(tmp_path, text), "--check"])
    assert result.exit_code == 2
    assert said in result.output
    assert "fault of otelctx" not in result.output


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_state_dir_that_is_no_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("theirs")
    arguments = ["--forward", "x:1", "--grpc", "off", "--http", "127.0.0.1:0", "--admin", "off"]
    folder = str(tmp_path / place)
    result = CliRunner().invoke(main, ["gateway", *arguments, "--state-dir", folder])
    assert result.exit_code == 2
    assert f"state_dir: {folder} cannot be used as a folder: " in result.output
    assert "Errno" not in result.output


@pytest.mark.parametrize("check", [["--check"], []])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cert-file", "mine.pem", "--key-file", "other.key"], "(key values mismatch)"),
        (["--cert-file", "junk", "--key-file", "junk"], "are no certificate and its key in PEM"),
        (
            ["--cert-file", "mine.pem", "--key-file", "mine.key", "--client-ca-file", "junk"],
            "client_ca_file: junk holds no certificates in PEM",
        ),
    ],
)
def test_certificates_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str, check: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _certificates()
    result = CliRunner().invoke(
        main, ["gateway", "--forward", "x:1", "--http", "127.0.0.1:0", *flags, *check]
    )
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "grpcs://x:1", "ca_file": "junk"}, "ca_file: junk holds no certificates"),
        (
            {"url": "https://x", "cert_file": "mine.pem", "key_file": "other.key"},
            "cert_file mine.pem and key_file other.key",
        ),
    ],
)
def test_certificates_of_a_downstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _certificates()
    with pytest.raises(SettingError, match=said):
        config_of({"forward": Given([given], "")}, {})
    good = given | {"ca_file": "ca.pem"} | ({"key_file": "mine.key"} if "key_file" in given else {})
    assert config_of({"forward": Given([good], "")}, {}).forward[0].ca_file == "ca.pem"


def _certificates() -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path("ca.pem")
    for name in ("mine", "other"):
        leaf = ca.issue_cert("127.0.0.1")
        leaf.cert_chain_pems[0].write_to_path(f"{name}.pem")
        leaf.private_key_pem.write_to_path(f"{name}.key")
    Path("junk").write_text("no certificate")


@pytest.mark.parametrize("pause", [0, 0.2])
def test_a_receiver_that_ends_ends_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """At its start, or later: with its error, and with the state saved where there may be something new in it."""

    async def main_loop(self: HttpServer) -> None:
        await asyncio.sleep(pause)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(HttpServer, "main_loop", main_loop)
    given = {
        "forward": "x:1",
        "grpc": "off",
        "http": "127.0.0.1:0",
        "admin": "off",
        "state_dir": str(tmp_path),
    }
    config = config_of({k: Given(v, "") for k, v in given.items()}, {})
    with pytest.raises(OSError, match=r"http: the server has ended \(Input/output error\)"):
        asyncio.run(run(config))
    assert not pause or (tmp_path / "gateway.state").exists()
