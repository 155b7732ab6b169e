"""What a setting's value must be: each reader takes what YAML or a flag gives, and raises ValueError for all else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_SIZES = {"": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
_TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_OFF = ("off", "none", "")
_KEY = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_EVERYWHERE, _HERE = {"0.0.0.0", "::"}, {"localhost", "127.0.0.1", "::1"}


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

    def meets(self, other: Address) -> bool:
        """Whether what is sent to the one may arrive at the other, as far as that is seen without asking a name server."""
        if self.port != other.port or not self.port:
            return False
        hosts = {self.host.lower(), other.host.lower()}
        if hosts & _EVERYWHERE:
            return all(a.is_loopback or a.host in _EVERYWHERE for a in (self, other))
        return len(hosts) == 1 or ("localhost" in hosts and hosts <= _HERE)


def address(value: Any) -> Address | None:
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


def seconds(low: float, high: float) -> Callable[[Any], float]:
    return lambda value: _measure(value, _TIMES, low, high)


def of_bytes(low: int, high: int) -> Callable[[Any], int]:
    return lambda value: round(_measure(value, _SIZES, low, high))


def count(low: int, high: int) -> Callable[[Any], int]:
    return lambda value: int(_measure(value, {"": 1}, low, high))


def a_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def a_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def a_header(value: Any) -> str:
    text = a_text(value).strip().lower()
    if text and not _KEY.fullmatch(text):
        raise ValueError
    return text


def a_file(value: Any) -> str:
    text = a_text(value)
    if text and not Path(text).is_file():
        raise ValueError
    return text


def headers(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(k, str) and _KEY.fullmatch(k) and isinstance(v, (str, int, float)) and str(v).isprintable()
        for k, v in value.items()
    ):
        raise ValueError
    return {key: str(said) for key, said in value.items()}


def compression(value: Any) -> str:
    if value not in ("none", "gzip"):
        raise ValueError
    return str(value)
