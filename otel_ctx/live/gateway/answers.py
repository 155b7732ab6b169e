"""What a receiver says to who sent, and a downstream to us: one form for gRPC and for HTTP.

Source: the OTLP specification, "OTLP/gRPC Response", "OTLP/HTTP Response" and their tables of what may be tried again.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

OK, CANCELLED, UNKNOWN, INVALID, LATE, _NOT_FOUND, _EXISTS, DENIED, EXHAUSTED = range(9)
ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = range(10, 17)

FAULT = "a fault of the gateway"
_AGAIN = frozenset((CANCELLED, LATE, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS))
# Of what a receiver says, as much as gRPC carries: what is beyond is lost, and with it the code.
_WORDS = 300  # characters
_DETAILS = 2048  # bytes
_LONGEST = 86_400.0  # s after which to try again
_BY_STATUS = {
    400: INVALID,
    401: UNAUTHENTICATED,
    403: DENIED,
    404: UNIMPLEMENTED,
    413: EXHAUSTED,
    415: INVALID,
    429: UNAVAILABLE,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}
_STATUS = {
    OK: 200,
    INVALID: 400,
    UNAUTHENTICATED: 401,
    DENIED: 403,
    UNIMPLEMENTED: 404,
    EXHAUSTED: 413,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """``code`` is gRPC's number. ``body``: the response message of a success, which may be a partial one; ``details``:
    what a gRPC server says beside it, as google.rpc.Status; ``retry_after``: seconds, where it was told; ``status``: of
    HTTP, where the code leaves it open."""

    code: int = OK
    message: str = ""
    body: bytes = b""
    retry_after: float | None = None
    details: bytes = b""
    status: int = 0

    @property
    def ok(self) -> bool:
        return self.code == OK

    @property
    def name(self) -> str:
        """Of the code, as gRPC has it."""
        known: Any = code_pb2.Code.DESCRIPTOR.values_by_number
        return known[self.code].name if self.code in known else f"code {self.code}"

    @property
    def again(self) -> bool:
        """May the same be sent once more? What is exhausted, only where it says when."""
        return self.code in _AGAIN or (self.code == EXHAUSTED and self.retry_after is not None)

    @property
    def http_status(self) -> int:
        if self.status:
            return self.status
        if self.again:
            return HTTPStatus.TOO_MANY_REQUESTS if self.code == EXHAUSTED else HTTPStatus.SERVICE_UNAVAILABLE
        return _STATUS.get(self.code, HTTPStatus.INTERNAL_SERVER_ERROR)

    @property
    def retry_header(self) -> str | None:
        """Whole seconds, as HTTP has them."""
        return str(max(1, math.ceil(self.retry_after))) if self.retry_after is not None else None

    def rpc_status(self) -> bytes:
        """As google.rpc.Status."""
        if self.details:
            return self.details
        status = status_pb2.Status(code=self.code, message=self.message)
        if self.retry_after is not None:
            info = error_details_pb2.RetryInfo()
            info.retry_delay.FromMilliseconds(round(self.retry_after * 1000))
            status.details.add().Pack(info)
        encoded: bytes = status.SerializeToString()
        return encoded


def later(message: str, after: float = 1.0) -> Answer:
    """Not now: whoever sent it may send it again."""
    return Answer(UNAVAILABLE, message, retry_after=after)


def refused(message: str, status: int = 0) -> Answer:
    """Not this, however often it is sent."""
    return Answer(_BY_STATUS.get(status, INVALID), message, status=status)


def of_http(status: int, body: bytes, retry_after: str | None) -> Answer:
    """What an HTTP receiver has answered."""
    if 200 <= status < 300:
        return Answer(body=body)
    if not 400 <= status < 600:
        where = (
            ", a redirect, which is not followed: is its URL the right one?" if 300 <= status < 400 else ""
        )
        return Answer(UNAVAILABLE, f"the receiver behind the gateway answered {status}{where}", status=502)
    code = _BY_STATUS.get(status, INTERNAL)
    message = ""
    with suppress(DecodeError, UnicodeDecodeError):
        message = status_pb2.Status.FromString(body).message[:_WORDS]
    told = (retry_after or "").strip()
    seconds = min(float(told), _LONGEST) if told.isascii() and told.isdigit() else None
    return Answer(
        code,
        message or f"the receiver answered {status}",
        retry_after=seconds if code == UNAVAILABLE else None,
        status=0 if code == UNAVAILABLE else status,
    )


def of_grpc(code: int, message: str, details: bytes) -> Answer:
    """What a gRPC receiver has answered. ``details``: its trailer ``grpc-status-details-bin``."""
    after = None
    try:
        for detail in status_pb2.Status.FromString(details).details:
            info = error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                after = info.retry_delay.ToMilliseconds() / 1000
    except DecodeError:
        details = b""
    return Answer(
        code, message[:_WORDS], retry_after=after, details=details if len(details) <= _DETAILS else b""
    )
