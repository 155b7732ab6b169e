"""What may be set of the gateway: one YAML file, or flags of the same names over it.

A value that cannot be used ends the start with one sentence that names the line: what forwards other people's spans
must not run with a typing error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from otel_ctx.errors import SettingError
from otel_ctx.live.gateway.config_file import Given
from otel_ctx.live.gateway.forwards import Forward, forwards
from otel_ctx.live.gateway.tls import client_context, server_context
from otel_ctx.live.gateway.values import (
    Address,
    a_file,
    a_flag,
    a_header,
    a_text,
    address,
    count,
    of_bytes,
    seconds,
)
from otel_ctx.live.settings import LiveSettings

_ANALYSIS = ("conversations", "kept_characters", "tokenizer", "ignore", "windows", "models", "rules")
"""Settings that the in-app part has too."""


def _setting(default: Any, parse: Callable[[Any], Any], allowed: str, about: str) -> Any:
    return field(default=default, metadata={"parse": parse, "allowed": allowed, "help": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Each field is a key of the file and, with hyphens, a flag."""

    grpc: Address | None = _setting(
        Address("127.0.0.1", 4327), address, "HOST:PORT or off", "Where OTLP/gRPC is received."
    )
    http: Address | None = _setting(
        Address("127.0.0.1", 4328), address, "HOST:PORT or off", "Where OTLP/HTTP is received."
    )
    admin: Address | None = _setting(
        Address("127.0.0.1", 9464),
        address,
        "HOST:PORT or off",
        "Where /metrics, /healthz and /readyz are served.",
    )
    forward: tuple[Forward, ...] = _setting(
        (), forwards, "URLs, or mappings with url", "Where to send on to; the first one's answer counts."
    )
    token_file: str = _setting(
        "", a_file, "a file that is there", "The file with the bearer token that senders must have."
    )
    cert_file: str = _setting("", a_file, "a file that is there", "The certificate of the receivers (PEM).")
    key_file: str = _setting("", a_file, "a file that is there", "Its key (PEM).")
    client_ca_file: str = _setting(
        "", a_file, "a file that is there", "Senders must have a certificate that one of these signed (PEM)."
    )
    open: bool = _setting(
        False, a_flag, "true or false", "Listen beyond loopback without token or client certificates."
    )
    max_request_bytes: int = _setting(
        64 << 20, of_bytes(1 << 10, 1 << 30), "a size like 64m", "The largest request, unpacked."
    )
    max_in_flight_bytes: int = _setting(
        256 << 20, of_bytes(1 << 10, 1 << 40), "a size like 256m", "All requests that are held at once."
    )
    receive_timeout: float = _setting(
        10.0, seconds(0.1, 600), "a time from 100ms to 10m", "The longest that a request may take to arrive."
    )
    max_connections: int = _setting(
        1000, count(1, 100_000), "a number from 1 on", "HTTP connections at once."
    )
    analysis_timeout: float = _setting(
        1.0,
        seconds(0.01, 60),
        "a time from 10ms to 1m",
        "The longest that a request waits for its analysis; then it goes on as it came.",
    )
    max_waiting_bytes: int = _setting(
        64 << 20,
        of_bytes(0, 1 << 40),
        "a size like 64m",
        "Requests that may wait for their analysis at once.",
    )
    tenant_header: str = _setting(
        "", a_header, "the name of a header", "The header that names the tenant: each has a state of its own."
    )
    tenant_attribute: str = _setting(
        "", a_text, "the name of an attribute", "The resource attribute that names the tenant."
    )
    max_tenants: int = _setting(16, count(1, 10_000), "a number from 1 on", "Tenants at once.")
    redelivery_window: float = _setting(
        600.0,
        seconds(300, 86_400),
        "a time from 5m to 24h",
        "How long a batch that comes again is recognised.",
    )
    max_remembered_bytes: int = _setting(
        64 << 20, of_bytes(1 << 16, 1 << 34), "a size like 64m", "Memory for that."
    )
    state_dir: str = _setting(
        "", a_text, "a folder", "Where the state is saved on stop and every save_interval, and loaded from."
    )
    save_interval: float = _setting(
        300.0, seconds(1, 86_400), "a time from 1s to 24h", "Time between two saves."
    )
    drain_timeout: float = _setting(
        20.0, seconds(0, 600), "a time up to 10m", "The longest that a stop waits for what is under way."
    )
    top_conversations: int = _setting(
        0, count(0, 1000), "a number from 0 to 1000", "Gauges for so many conversations nearest their limit."
    )
    analysis: LiveSettings = field(default_factory=LiveSettings)
    token: str = field(default="", repr=False)

    @property
    def tls(self) -> bool:
        return bool(self.cert_file)


def settings() -> dict[str, Field[Any]]:
    """Name -> field of what may be set, those of the analysis included."""
    own = {f.name: f for f in fields(GatewayConfig) if f.metadata}
    live = {f.name: f for f in fields(LiveSettings)}
    return own | {name: live[name] for name in _ANALYSIS}


def config_of(given: Mapping[str, Given], environ: Mapping[str, str]) -> GatewayConfig:
    """The settings. SettingError, with the place, for what cannot be used or must not be so."""
    known = settings()
    own: dict[str, Any] = {}
    analysis: dict[str, Any] = {}
    for name, (value, where) in given.items():
        if name not in known:
            raise SettingError(f"{where}: there is no setting {name!r}; there are {', '.join(known)}")
        metadata = known[name].metadata
        try:
            read = metadata["parse"](value)
        except SettingError as error:
            raise SettingError(f"{where}: {error}") from None
        except Exception:
            raise SettingError(f"{where}: {name} must be {metadata['allowed']}") from None
        (analysis if name in _ANALYSIS else own)[name] = read
    config = GatewayConfig(
        **own, analysis=LiveSettings(**analysis), token=_token(own.get("token_file", ""), environ)
    )
    _check(config)
    return config


def _token(path: str, environ: Mapping[str, str]) -> str:
    token = environ.get("OTELCTX_GATEWAY_TOKEN", "")
    if path:
        try:
            token = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"token_file: {path} cannot be read ({type(error).__name__})") from None
        if not token.strip():
            raise SettingError("token_file: the file is empty")
    return token.strip()


def _check(config: GatewayConfig) -> None:
    if not config.forward:
        raise SettingError("forward: where to send on to must be said, as in --forward 127.0.0.1:4317")
    names = [to.name for to in config.forward]
    if len(set(names)) < len(names):
        raise SettingError("forward: two have the same name")
    if config.grpc is None and config.http is None:
        raise SettingError("grpc and http are both off: there is nothing to receive on")
    own = [a for a in (config.grpc, config.http, config.admin) if a is not None]
    for one, other in combinations(own, 2):
        if one.meets(other):
            raise SettingError(f"the port of {one} is there twice: each needs a port of its own")
    for to in config.forward:
        if any(to.address.meets(a) for a in own):
            raise SettingError(f"forward: {to.url} is the gateway itself")
    if bool(config.cert_file) != bool(config.key_file):
        raise SettingError("cert_file and key_file go together")
    if config.client_ca_file and not config.cert_file:
        raise SettingError("client_ca_file needs cert_file and key_file")
    if config.tls:
        server_context(config.cert_file, config.key_file, config.client_ca_file)
    for to in config.forward:
        if to.ca_file or to.cert_file:
            client_context(to.ca_file, to.cert_file, to.key_file)
    if config.max_in_flight_bytes < config.max_request_bytes:
        raise SettingError("max_in_flight_bytes must not be less than max_request_bytes")
    if not (config.token or config.client_ca_file or config.open):
        for name in ("grpc", "http"):
            address = getattr(config, name)
            if address is not None and not address.is_loopback:
                raise SettingError(
                    f"{name}: {address} can be reached from other machines, and anybody could send: set token_file "
                    "(or OTELCTX_GATEWAY_TOKEN), or cert_file, key_file and client_ca_file; open allows it without"
                )


def described(config: GatewayConfig) -> str:
    """What would run, a line each, without secrets."""
    lines = []
    for name in settings():
        value = getattr(config.analysis if name in _ANALYSIS else config, name)
        if name == "forward":
            lines += [_told(to) for to in value]
        else:
            lines.append(f"{name}: {_word(value)}")
    lines.append(f"token: {'set' if config.token else 'none'}")
    return "\n".join(lines)


def _told(to: Forward) -> str:
    headers = ", ".join(sorted(to.headers)) or "none"
    return f"forward: {to.url} (name {to.name}, timeout {to.timeout:g}s, headers {headers})"


def _word(value: Any) -> str:
    if value is None or value == "" or value == ():
        return "off"
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "off"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "off"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
