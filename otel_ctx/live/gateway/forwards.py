"""The downstreams: where what was received is sent on to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from otel_ctx.errors import SettingError
from otel_ctx.live.gateway.values import Address, a_file, a_text, compression, headers, of_bytes, seconds
from otel_ctx.live.urls import without_secrets

_GRPC_LIMIT = 4_000_000  # bytes: what a receiver of default settings takes, and a little less


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

    @property
    def address(self) -> Address:
        split = urlsplit(self.url)
        return Address(split.hostname or "", split.port or (443 if self.tls else 80))


_FORWARD: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "url": (a_text, "a URL"),
    "name": (a_text, "a word"),
    "headers": (headers, "names and values"),
    "timeout": (seconds(0.1, 600), "a time from 100ms to 10m"),
    "compression": (compression, "none or gzip"),
    "ca_file": (a_file, "a file that is there"),
    "cert_file": (a_file, "a file that is there"),
    "key_file": (a_file, "a file that is there"),
    "max_request_bytes": (of_bytes(0, 1 << 31), "a size like 4m"),
}


def _url(text: str) -> str:
    if "://" not in text:
        text = f"grpc://{text}"
    split, told = urlsplit(text), repr(without_secrets(text))
    try:
        port = split.port
    except ValueError:
        port = 0
    if port == 0:
        raise SettingError("forward: the port of a URL must be a number from 1 to 65535")
    if split.scheme not in ("grpc", "grpcs", "http", "https") or not split.hostname or split.username:
        raise SettingError(
            f"forward: {told} is no receiver: grpc://HOST:PORT, grpcs://, http:// or https:// is"
        )
    if "?" in text or "#" in text:
        raise SettingError(f"forward: {told} must be without what follows ? or #: a key is sent in headers")
    if split.scheme.startswith("grpc") and (split.path.strip("/") or port is None):
        raise SettingError(f"forward: {told} must be HOST:PORT, without a path")
    if split.path.rstrip("/").endswith(("/v1/traces", "/v1/logs", "/v1/metrics")):
        raise SettingError(f"forward: {told} must be without /v1/…: it is added for each signal")
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


def forwards(value: Any) -> tuple[Forward, ...]:
    return tuple(forward_of(each) for each in (value if isinstance(value, (list, tuple)) else [value]))
