"""Who may send, how much, and how slowly."""

from __future__ import annotations

import gzip
import logging
import os
import resource
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme
import zstandard

from otel_ctx.errors import SettingError
from otel_ctx.live.gateway import http_server
from otel_ctx.live.gateway.bodies import TookTooLongError, TooLargeError, unpack
from otel_ctx.live.gateway.config import config_of, described
from otel_ctx.live.gateway.config_file import Given
from otel_ctx.live.gateway.seldom import Seldom
from tests.gateway_rig import (
    WAIT,
    GatewayRig,
    GrpcDownstream,
    HttpDownstream,
    chat,
    plain,
    request,
)

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOKEN = "a-token-of-some-length"


@pytest.fixture
def down() -> Iterator[HttpDownstream]:
    with HttpDownstream() as downstream:
        yield downstream


# ---- exposure


def given(**settings: Any) -> dict[str, Given]:
    return {k: Given(v, "test") for k, v in {"forward": "127.0.0.1:4317", **settings}.items()}


@pytest.mark.parametrize("name", ["grpc", "http"])
@pytest.mark.parametrize(
    "address", ["0.0.0.0:4327", "[::]:4327", "192.0.2.1:4327", "example.org:4327", "*:4327"]
)
def test_what_others_can_reach_needs_a_token_or_certificates(name: str, address: str) -> None:
    only = {"grpc": "off", "http": "off", name: address}
    with pytest.raises(SettingError, match="anybody could send"):
        config_of(given(**only), {})
    assert config_of(given(**only), {"OTELCTX_GATEWAY_TOKEN": TOKEN}).token == TOKEN
    assert config_of(given(**only, open=True), {}).open


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1"])
def test_loopback_needs_none(address: str) -> None:
    assert config_of(given(grpc=address), {}).token == ""


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    forward = {"url": "https://example.org", "headers": {"api-key": "secret-value"}}
    config = config_of(given(token_file=str(file), forward=[forward]), {})
    assert config.token == TOKEN
    assert TOKEN not in repr(config) + described(config)
    assert "secret-value" not in repr(config) + described(config)


# ---- tokens


@pytest.mark.parametrize("token", ["", "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_without_the_token_nothing_is_taken(down: HttpDownstream, token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with GatewayRig(down.url, token_file=str(file)) as rig:
        answer = rig.post("/v1/traces", request(plain(1)), authorization=token)
        assert answer.status_code == 401
        assert rig.post("/v1/traces", b"{}", "application/json").json()["code"] == 16
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", request(plain(1)), (("authorization", token),))
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not down.bodies
        assert rig.post("/v1/traces", request(plain(1)), authorization=f"Bearer {TOKEN}").status_code == 200
        rig.call("traces", request(plain(1)), (("authorization", f"bearer {TOKEN}"),))
        assert len(down.bodies) == 2
        assert "authorization" not in {k.lower() for k in down.bodies[0][2]}  # ours, not the downstream's


def test_who_has_no_token_cannot_fill_the_memory(down: HttpDownstream) -> None:
    with (
        GatewayRig(down.url, environ={"OTELCTX_GATEWAY_TOKEN": TOKEN}) as rig,
        socket.create_connection(("127.0.0.1", rig.gateway.ports["http"])) as client,
    ):
        client.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 60000000\r\n\r\n"
        )
        client.settimeout(10)
        assert client.recv(4096).startswith(b"HTTP/1.1 401")  # before any of the body came


# ---- TLS


@pytest.fixture
def tls(tmp_path: Path) -> Any:
    ca, other = trustme.CA(), trustme.CA()
    files = {
        "ca_file": tmp_path / "ca.pem",
        "cert_file": tmp_path / "cert.pem",
        "key_file": tmp_path / "key.pem",
    }
    ca.cert_pem.write_to_path(files["ca_file"])
    cert = ca.issue_cert("127.0.0.1", "localhost")
    cert.private_key_pem.write_to_path(files["key_file"])
    files["cert_file"].write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))
    return ca, other, {name: str(path) for name, path in files.items()}


def _context(ca: trustme.CA, client: trustme.LeafCert | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


def _channel(rig: GatewayRig, ca: trustme.CA, client: trustme.LeafCert | None) -> grpc.Channel:
    key = client.private_key_pem.bytes() if client else None
    chain = client.cert_chain_pems[0].bytes() if client else None
    return grpc.secure_channel(rig.grpc, grpc.ssl_channel_credentials(ca.cert_pem.bytes(), key, chain))


def test_client_certificates(down: HttpDownstream, tls: Any) -> None:
    ca, other, files = tls
    with GatewayRig(
        down.url, cert_file=files["cert_file"], key_file=files["key_file"], client_ca_file=files["ca_file"]
    ) as rig:
        body = request(plain(1))
        for client, allowed in ((ca.issue_cert("c"), True), (other.issue_cert("c"), False), (None, False)):
            with _channel(rig, ca, client) as channel:
                export = channel.unary_unary(TRACES)
                if allowed:
                    export(body, timeout=10)
                else:
                    with pytest.raises(grpc.RpcError):
                        export(body, timeout=5)
            headers = {"content-type": "application/x-protobuf"}
            with httpx.Client(verify=_context(ca, client), trust_env=False) as http:
                if allowed:
                    assert (
                        http.post(f"{rig.http}/v1/traces", content=body, headers=headers).status_code == 200
                    )
                else:
                    with pytest.raises(httpx.TransportError):
                        http.post(f"{rig.http}/v1/traces", content=body, headers=headers)
        assert len(down.bodies) == 2


def test_tls_to_the_downstream(tls: Any) -> None:
    _, _, files = tls
    pair = Path(files["key_file"]).read_bytes(), Path(files["cert_file"]).read_bytes()
    server = grpc.ssl_server_credentials(
        [pair], Path(files["ca_file"]).read_bytes(), require_client_auth=True
    )
    with GrpcDownstream(credentials=server) as down:
        with GatewayRig({"url": down.url, **files}) as rig:
            rig.call("traces", request(plain(1)))
            assert down.arrived().total() == 1
        with GatewayRig({"url": down.url, "timeout": 2}) as rig:
            assert rig.post("/v1/traces", request(plain(1))).status_code == 503


def test_tls_from_gateway_to_gateway(down: HttpDownstream, tls: Any) -> None:
    _, _, files = tls
    with (
        GatewayRig(down.url, cert_file=files["cert_file"], key_file=files["key_file"]) as second,
        GatewayRig({"url": second.http, "ca_file": files["ca_file"], "compression": "gzip"}) as first,
    ):
        assert first.post("/v1/traces", request(plain(1))).status_code == 200
        assert down.arrived().total() == 1


# ---- sizes


def bombs() -> list[tuple[str, bytes]]:
    size = 1 << 30
    zeros = bytes(1 << 20)
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    packed = b"".join(packer.compress(zeros) for _ in range(size >> 20)) + packer.flush()
    gz = gzip.compress(bytes(64 << 20), 9)
    return [("zstd", packed), ("gzip", gz), ("gzip", gz * 8)]


def test_bombs_are_refused_in_bounded_memory(down: HttpDownstream) -> None:
    with GatewayRig(down.url, max_request_bytes="4m") as rig:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for encoding, bomb in bombs():
            assert len(bomb) < 1 << 20
            assert rig.post("/v1/traces", bomb, content_encoding=encoding).status_code == 413
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 100_000  # KiB: the first of them alone would be a million
        assert rig.post("/v1/traces", request(plain(1))).status_code == 200


def test_a_bomb_by_grpc_is_refused(down: HttpDownstream) -> None:
    with (
        GatewayRig(down.url, max_request_bytes="4m") as rig,
        grpc.insecure_channel(
            rig.grpc, [("grpc.max_send_message_length", -1)], compression=grpc.Compression.Gzip
        ) as channel,
        pytest.raises(grpc.RpcError) as error,
    ):
        channel.unary_unary(TRACES)(bytes(64 << 20), timeout=30)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not down.bodies


def test_a_window_of_zstd_that_asks_for_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(ValueError, match="damaged"):
        unpack("zstd", packer.compress(b"x" * 10) + packer.flush(), 1 << 20)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_the_limit_is_exact(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    assert unpack(encoding, pack(b"x" * 5000), 5000) == b"x" * 5000
    with pytest.raises(TooLargeError):
        unpack(encoding, pack(b"x" * 5001), 5000)


PACKERS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
each_encoding = pytest.mark.parametrize("encoding", PACKERS)


@each_encoding
def test_what_is_cut_off_anywhere_is_refused(down: HttpDownstream, encoding: str) -> None:
    packed = PACKERS[encoding](request(plain(1)))
    for cut in range(len(packed)):
        with pytest.raises(ValueError, match="are cut off"):
            unpack(encoding, packed[:cut], 1 << 20)
        with pytest.raises(ValueError, match="are cut off"):
            unpack(encoding, packed + packed[:cut], 1 << 20) if cut else unpack(encoding, b"", 1 << 20)
    with GatewayRig(down.url) as rig:
        for damaged in (b"", packed[:6], packed[:-1], packed + b"junk"):
            assert rig.post("/v1/traces", damaged, content_encoding=encoding).status_code == 400
        assert not down.bodies
        assert rig.post("/v1/traces", packed, content_encoding=encoding).status_code == 200


@each_encoding
def test_members_in_a_row_and_zeros_behind_them(encoding: str) -> None:
    pack = PACKERS[encoding]
    big = bytes(range(256)) * 2000
    parts = [b"one", b"", big, b"two"]
    packed = b"".join(map(pack, parts))
    assert unpack(encoding, packed, 1 << 20) == b"".join(parts)
    assert unpack(encoding, packed + bytes(70_000), 1 << 20) == b"".join(parts)
    with pytest.raises(ValueError, match="damaged"):
        unpack(encoding, packed + bytes(70_000) + b"x", 1 << 20)


@each_encoding
def test_members_that_hold_nothing_are_counted(encoding: str) -> None:
    nothing = PACKERS[encoding](b"")
    assert unpack(encoding, nothing * 10_000, 1 << 20) == b""
    with pytest.raises(ValueError, match="in more than 10000 pieces"):
        unpack(encoding, nothing * 10_001, 1 << 20)


@each_encoding
def test_unpacking_ends_between_pieces_when_its_time_is_over(encoding: str) -> None:
    packed = PACKERS[encoding](os.urandom(1 << 20))
    asked: list[int] = []

    def enough() -> bool:
        asked.append(1)
        return len(asked) == 5

    with pytest.raises(TookTooLongError):
        unpack(encoding, packed, 1 << 21, enough)
    assert len(asked) == 5


def test_who_is_being_unpacked_when_it_stops_is_to_come_again(down: HttpDownstream) -> None:
    packed = gzip.compress(os.urandom(1 << 20))
    with GatewayRig(down.url) as rig:
        rig.gateway.relay.closed = True
        answer = rig.post("/v1/traces", packed, content_encoding="gzip")
        assert answer.status_code == 503
        assert b"shutting down" in answer.content
        assert answer.headers["retry-after"] == "1"
        assert rig.gateway.relay.room.held == 0


@pytest.mark.parametrize("size", [100_001, 200_000])
def test_who_reads_only_after_sending_sees_that_it_is_too_large(down: HttpDownstream, size: int) -> None:
    with GatewayRig(down.url, max_request_bytes=100_000) as rig:
        for chunked in (False, True):
            pieces = (b"x" * min(5000, size - at) for at in range(0, size, 5000))
            body = pieces if chunked else b"x" * size
            asked = urllib.request.Request(
                f"{rig.http}/v1/traces", body, {"content-type": "application/x-protobuf"}
            )
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=WAIT)
            assert error.value.code == 413
            assert error.value.headers["connection"] == "close"
            error.value.close()
        assert rig.gateway.relay.room.held == 0
        assert not down.bodies


def test_what_is_too_large_is_refused(down: HttpDownstream) -> None:
    with GatewayRig(down.url, max_request_bytes="100k") as rig:
        large = request(chat(1, 0, words=20_000))
        assert rig.post("/v1/traces", large).status_code == 413

        def pieces() -> Iterator[bytes]:
            for at in range(0, len(large), 1000):
                yield large[at : at + 1000]

        headers = {"content-type": "application/x-protobuf"}
        try:
            answer = httpx.post(f"{rig.http}/v1/traces", content=pieces(), headers=headers, trust_env=False)
            assert answer.status_code == 413
        except httpx.TransportError:
            pass  # it was let go while it still sent
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", large)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not down.bodies


def test_json_nested_deeply_is_refused(down: HttpDownstream) -> None:
    deep = b'{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":'
    deep += b'{"arrayValue":{"values":[' * 5000
    with GatewayRig(down.url) as rig:
        closed = deep + b"]}}" * 5000 + b"}]}}]}"
        assert rig.post("/v1/traces", closed, "application/json").status_code == 400


def json_trace(text: bytes) -> bytes:
    return (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",'
        b'"spanId":"eee19b7ec3c1b174","name":"%b"}]}]}]}' % text
    )


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ude00 cut", "\ufffd cut"),
        (rb"whole \ud83d\ude00", "whole \U0001f600"),
        (b"not utf-8 \xc3", "not utf-8 \ufffd"),
    ],
)
def test_json_text_that_is_cut_inside_a_character(down: HttpDownstream, sent: bytes, arrives: str) -> None:
    with GatewayRig(down.url) as rig:
        assert rig.post("/v1/traces", json_trace(sent), "application/json").status_code == 200
        assert [span.name for span in down.spans()] == [arrives]
        for junk in (json_trace(sent)[:-1], json_trace(sent) + b"x", json_trace(b"x") * 2, b""):
            assert rig.post("/v1/traces", junk, "application/json").status_code == 400


# ---- slowness


def test_slow_senders_do_not_stop_others_and_are_let_go(down: HttpDownstream) -> None:
    with GatewayRig(down.url, receive_timeout=0.5) as rig:
        at = ("127.0.0.1", rig.gateway.ports["http"])
        head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        slow = [socket.create_connection(at) for _ in range(60)]
        for n, client in enumerate(slow):
            if n % 3:  # every third says nothing at all
                client.sendall(head if n % 3 == 1 else head + b"Content-Length: 1000\r\n\r\nabc")
        assert rig.post("/v1/traces", request(plain(1))).status_code == 200
        rig.call("traces", request(plain(2)))
        for n, client in enumerate(slow):
            client.settimeout(20)
            answer = client.recv(4096)
            assert answer == b"" if n % 3 != 2 else answer.startswith(b"HTTP/1.1 503"), n
            client.close()
        assert len(down.bodies) == 2


def test_a_second_request_may_not_be_slow_either(down: HttpDownstream) -> None:
    with GatewayRig(down.url, receive_timeout=0.5) as rig:
        body = request(plain(1))
        head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        with socket.create_connection(("127.0.0.1", rig.gateway.ports["http"])) as client:
            client.settimeout(20)
            client.sendall(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
            client.sendall(head)
            assert client.recv(4096) == b""


def test_more_connections_than_may_be(down: HttpDownstream) -> None:
    with GatewayRig(down.url, max_connections=5, receive_timeout=30) as rig:
        at = ("127.0.0.1", rig.gateway.ports["http"])
        held = [socket.create_connection(at) for _ in range(10)]
        for client in held:
            client.sendall(b"POST ")
        assert rig.post("/v1/traces", request(plain(1))).status_code == 503
        for client in held:
            client.close()


# ---- words


def test_no_prompt_text_in_logs_or_answers_of_its_own(
    down: HttpDownstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="otel_ctx")
    with GatewayRig(down.url) as rig:
        secret = b"the patient is called Marianne Dupont"
        for body, kind in (
            (secret, "application/json"),
            (secret, "application/x-protobuf"),
            (secret, "text/plain"),
        ):
            answer = rig.post("/v1/traces", body, kind)
            assert answer.status_code in (400, 415)
            assert b"Marianne" not in answer.content
    assert "Marianne" not in caplog.text


def test_who_is_refused_is_told_of_once_a_minute(
    down: HttpDownstream, caplog: pytest.LogCaptureFixture
) -> None:
    with GatewayRig(down.url) as rig:
        for _ in range(3):
            assert rig.post("/v1/traces", b"junk").status_code == 400
            assert rig.post("/v1/traces", b"", "text/plain").status_code == 415
            with pytest.raises(grpc.RpcError):
                rig.call("traces", b"junk")
    assert [record.getMessage() for record in caplog.records if "was refused" in record.msg] == [
        "otel_ctx: a traces request was refused: not a valid OTLP traces request (told once a minute)",
        (
            "otel_ctx: a traces request was refused: the content type must be application/x-protobuf or"
            " application/json (told once a minute)"
        ),
    ]


def test_what_is_no_http_is_logged_once_a_minute(
    down: HttpDownstream, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server._BOUND, "_told", {})
    with GatewayRig(down.url) as rig:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", rig.gateway.ports["http"])) as client:
                client.settimeout(WAIT)
                client.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 400")
    assert caplog.text.count("Invalid HTTP request received.") == 1


def test_one_of_each_kind_a_minute_and_not_more_kinds_than_can_be_kept() -> None:
    now = [0.0]
    seldom = Seldom(lambda: now[0])
    assert [seldom.due("a"), seldom.due("a"), seldom.due("b")] == [True, False, True]
    now[0] = 60.0
    assert [seldom.due("a"), seldom.due("a")] == [True, False]
    assert sum(seldom.due(f"kind {n}") for n in range(1000)) == 98
    quiet = logging.makeLogRecord({"levelno": logging.INFO, "msg": "started"})
    assert [seldom.filter(quiet), seldom.filter(quiet)] == [True, True]
