"""What may be set of the gateway: one YAML file, or flags of the same names over it.

A value that cannot be used ends the start with one sentence that names the line: what forwards other people's spans
must not run with a typing error.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from otel_ctx.errors import SettingError
from otel_ctx.live.settings import LiveSettings

_ANALYSIS = ("conversations", "kept_characters", "tokenizer", "ignore", "windows", "models", "rules")
"""Settings that the in-app part has too."""

_SIZES = {"": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OFF = ("off", "none", "")
_GRPC_LIMIT = 4_000_000  # bytes: what a receiver of default settings takes, and a little less
_KEY = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A downstream. ``url``: ``grpc://``, ``grpcs://``, ``http://`` or ``https://``, of HTTP without ``/v1/…``."""

    url: str
    name: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 10.0
    compression: str = "none"
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    max_request_bytes: int = 0

    @property
    def is_grpc(self) -> bool:
        return self.url.startswith("grpc")

    @property
    def tls(self) -> bool:
        return self.url.startswith(("grpcs:", "https:"))

    @property
    def target(self) -> str:
        return urlsplit(self.url).netloc


# ---- what a value must be


def _address(value: Any) -> Address | None:
    text = "" if value is False else str(value).strip()  # YAML reads "off" as False
    if text.lower() in _OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not int(port) < 1 << 16 or not host.strip("[]"):
        raise ValueError
    return Address(host.strip("[]"), int(port))


def _measure(value: Any, units: Mapping[str, float], low: float, high: float) -> float:
    if isinstance(value, bool):
        raise ValueError
    match = re.fullmatch(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(value))
    if match is None or match[2].lower() not in units:
        raise ValueError
    number = float(match[1]) * units[match[2].lower()]
    if not low <= number <= high:
        raise ValueError
    return number


def _seconds(low: float, high: float) -> Callable[[Any], float]:
    return lambda value: _measure(value, _TIMES, low, high)


def _bytes(low: int, high: int) -> Callable[[Any], int]:
    return lambda value: round(_measure(value, _SIZES, low, high))


def _count(low: int, high: int) -> Callable[[Any], int]:
    return lambda value: int(_measure(value, {"": 1}, low, high))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _header(value: Any) -> str:
    text = _text(value).strip().lower()
    if text and not _KEY.fullmatch(text):
        raise ValueError
    return text


def _file(value: Any) -> str:
    text = _text(value)
    if text and not Path(text).is_file():
        raise ValueError
    return text


def _headers(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(k, str) and _KEY.fullmatch(k) and isinstance(v, (str, int, float)) and str(v).isprintable()
        for k, v in value.items()
    ):
        raise ValueError
    return {key: str(said) for key, said in value.items()}


def _compression(value: Any) -> str:
    if value not in ("none", "gzip"):
        raise ValueError
    return str(value)


_FORWARD: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "url": (_text, "a URL"),
    "name": (_text, "a word"),
    "headers": (_headers, "names and values"),
    "timeout": (_seconds(0.1, 600), "a time from 100ms to 10m"),
    "compression": (_compression, "none or gzip"),
    "ca_file": (_file, "a file that is there"),
    "cert_file": (_file, "a file that is there"),
    "key_file": (_file, "a file that is there"),
    "max_request_bytes": (_bytes(0, 1 << 31), "a size like 4m"),
}


def _url(text: str) -> str:
    if "://" not in text:
        text = f"grpc://{text}"
    split = urlsplit(text)
    if split.scheme not in ("grpc", "grpcs", "http", "https") or not split.hostname or split.username:
        raise SettingError(
            f"forward: {text!r} is no receiver: grpc://HOST:PORT, grpcs://, http:// or https:// is"
        )
    if split.scheme.startswith("grpc") and (split.path.strip("/") or split.port is None):
        raise SettingError(f"forward: {text!r} must be HOST:PORT, without a path")
    if split.path.rstrip("/").endswith(("/v1/traces", "/v1/logs", "/v1/metrics")):
        raise SettingError(f"forward: {text!r} must be without /v1/…: it is added for each signal")
    return text


def forward_of(value: Any) -> Forward:
    """One downstream, from its URL or from a mapping. SettingError where it cannot be used."""
    given = {"url": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("url"), str):
        raise SettingError("forward: each must be a URL, or a mapping with url")
    read: dict[str, Any] = {}
    for key, raw in given.items():
        if key not in _FORWARD:
            raise SettingError(f"forward: there is no {key!r}; there are {', '.join(_FORWARD)}")
        parse, allowed = _FORWARD[key]
        try:
            read[key] = parse(raw)
        except (ValueError, TypeError):
            raise SettingError(f"forward: {key} must be {allowed}") from None
    read["url"] = _url(read["url"])
    read.setdefault("name", urlsplit(read["url"]).netloc)
    if read["url"].startswith("grpc"):
        read.setdefault("max_request_bytes", _GRPC_LIMIT)
    if bool(read.get("cert_file")) != bool(read.get("key_file")):
        raise SettingError("forward: cert_file and key_file go together")
    return Forward(**read)


def _forwards(value: Any) -> tuple[Forward, ...]:
    return tuple(forward_of(each) for each in (value if isinstance(value, (list, tuple)) else [value]))


def _setting(default: Any, parse: Callable[[Any], Any], allowed: str, about: str) -> Any:
    return field(default=default, metadata={"parse": parse, "allowed": allowed, "help": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Each field is a key of the file and, with hyphens, a flag."""

    grpc: Address | None = _setting(
        Address("127.0.0.1", 4327), _address, "HOST:PORT or off", "Where OTLP/gRPC is received."
    )
    http: Address | None = _setting(
        Address("127.0.0.1", 4328), _address, "HOST:PORT or off", "Where OTLP/HTTP is received."
    )
    admin: Address | None = _setting(
        Address("127.0.0.1", 9464),
        _address,
        "HOST:PORT or off",
        "Where /metrics, /healthz and /readyz are served.",
    )
    forward: tuple[Forward, ...] = _setting(
        (), _forwards, "URLs, or mappings with url", "Where to send on to; the first one's answer counts."
    )
    token_file: str = _setting(
        "", _file, "a file that is there", "The file with the bearer token that senders must have."
    )
    cert_file: str = _setting("", _file, "a file that is there", "The certificate of the receivers (PEM).")
    key_file: str = _setting("", _file, "a file that is there", "Its key (PEM).")
    client_ca_file: str = _setting(
        "", _file, "a file that is there", "Senders must have a certificate that one of these signed (PEM)."
    )
    open: bool = _setting(
        False, _flag, "true or false", "Listen beyond loopback without token or client certificates."
    )
    max_request_bytes: int = _setting(
        64 << 20, _bytes(1 << 10, 1 << 30), "a size like 64m", "The largest request, unpacked."
    )
    max_in_flight_bytes: int = _setting(
        256 << 20, _bytes(1 << 10, 1 << 40), "a size like 256m", "All requests that are held at once."
    )
    receive_timeout: float = _setting(
        10.0, _seconds(0.1, 600), "a time from 100ms to 10m", "The longest that a request may take to arrive."
    )
    max_connections: int = _setting(
        1000, _count(1, 100_000), "a number from 1 on", "HTTP connections at once."
    )
    analysis_timeout: float = _setting(
        1.0,
        _seconds(0.01, 60),
        "a time from 10ms to 1m",
        "The longest that a request waits for its analysis; then it goes on as it came.",
    )
    max_waiting_bytes: int = _setting(
        64 << 20, _bytes(0, 1 << 40), "a size like 64m", "Requests that may wait for their analysis at once."
    )
    tenant_header: str = _setting(
        "", _header, "the name of a header", "The header that names the tenant: each has a state of its own."
    )
    tenant_attribute: str = _setting(
        "", _text, "the name of an attribute", "The resource attribute that names the tenant."
    )
    max_tenants: int = _setting(16, _count(1, 10_000), "a number from 1 on", "Tenants at once.")
    redelivery_window: float = _setting(
        600.0,
        _seconds(300, 86_400),
        "a time from 5m to 24h",
        "How long a batch that comes again is recognised.",
    )
    max_remembered_bytes: int = _setting(
        64 << 20, _bytes(1 << 16, 1 << 34), "a size like 64m", "Memory for that."
    )
    state_dir: str = _setting(
        "", _text, "a folder", "Where the state is saved on stop and every save_interval, and loaded from."
    )
    save_interval: float = _setting(
        300.0, _seconds(1, 86_400), "a time from 1s to 24h", "Time between two saves."
    )
    drain_timeout: float = _setting(
        20.0, _seconds(0, 600), "a time up to 10m", "The longest that a stop waits for what is under way."
    )
    top_conversations: int = _setting(
        0, _count(0, 1000), "a number from 0 to 1000", "Gauges for so many conversations nearest their limit."
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


def default_of(name: str) -> Any:
    found = settings()[name]
    return found.default if found.default is not MISSING else {}


class Given(NamedTuple):
    """A value and where it stands: ``--flag`` or ``FILE, line N``."""

    value: Any
    where: str


def read_file(path: str) -> dict[str, Given]:
    """The keys of a YAML file. SettingError where it is none, with the line."""
    try:
        return _read_file(path)
    except RecursionError:
        raise SettingError(f"{path}: a value of it is nested too deeply, or within itself") from None


def _read_file(path: str) -> dict[str, Given]:
    import yaml

    try:
        text = Path(path).read_text("utf-8")
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise SettingError(
            f"{path}{line}: no valid YAML ({getattr(error, 'problem', None) or 'damaged'})"
        ) from None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingError(f"{path}, line {node.start_mark.line + 1}: must be keys and values")
    given: dict[str, Given] = {}
    for key_node, value_node in node.value:
        where = f"{path}, line {key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise SettingError(f"{where}: a key must be a word")
        key = key_node.value
        _look_for_doubles(value_node, path)
        if key in given:
            raise SettingError(f"{where}: {key} is there twice")
        try:
            given[key] = Given(
                _from_environment(loader.construct_object(value_node, deep=True), where), where
            )
        except (yaml.YAMLError, ValueError, TypeError):  # a date that is none, for instance
            raise SettingError(f"{where}: {key} is no value of YAML's own kinds") from None
    return given


def _look_for_doubles(node: Any, path: str) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise SettingError(f"{path}, line {key.start_mark.line + 1}: {key.value} is there twice")
                seen.add(key.value)
            _look_for_doubles(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _look_for_doubles(value, path)


def _from_environment(value: Any, where: str) -> Any:
    """``${env:NAME}`` in texts, as a Collector's file has it: secrets need not stand in a file."""

    def found(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise SettingError(f"{where}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    if isinstance(value, str):
        return _ENV.sub(found, value)
    if isinstance(value, dict):
        return {key: _from_environment(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_environment(item, where) for item in value]
    return value


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
    ports = [a for a in (config.grpc, config.http, config.admin) if a is not None and a.port]
    if len(set(ports)) < len(ports):
        raise SettingError(f"{ports[0]} is there twice: each needs a port of its own")
    for to in config.forward:
        if {to.target.replace("localhost", "127.0.0.1")} & {str(a) for a in ports[:2]}:
            raise SettingError(f"forward: {to.url} is the gateway itself")
    if bool(config.cert_file) != bool(config.key_file):
        raise SettingError("cert_file and key_file go together")
    if config.client_ca_file and not config.cert_file:
        raise SettingError("client_ca_file needs cert_file and key_file")
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
