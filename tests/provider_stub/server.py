"""The server, and the log of what it saw and said."""

from __future__ import annotations

import gzip
import json
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.loopback import Loopback
from tests.provider_stub import script
from tests.provider_stub.anthropic_messages import Messages
from tests.provider_stub.bedrock_converse import Converse
from tests.provider_stub.gemini import Gemini
from tests.provider_stub.interface import Answer, Api, Json, Prompt, compact
from tests.provider_stub.metering import PromptCache, tokens
from tests.provider_stub.openai_chat import Chat, openai_error
from tests.provider_stub.openai_responses import Responses


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it went over the wire, and its answer; a stream's answer as a whole."""

    api: str  # chat, responses, anthropic, gemini, bedrock
    path: str
    status: int
    start_unix_nano: int
    end_unix_nano: int  # when the answer began
    headers: Mapping[str, str]  # names in small letters
    body: Json
    response: Json
    usage: Json  # as the answer says it; empty in an error


class ProviderStub(Loopback):
    """A provider on a free port (or ``port``) of 127.0.0.1, running until the ``with`` block ends.

    ``url`` is without a path: OpenAI's clients want ``/v1`` behind it.
    ``failures``: number of a request, from 1, to the status of the error that it gets; may be changed while it runs.
    ``log``: a file to which each Request is appended as a line of JSON.
    """

    def __init__(
        self, port: int = 0, log: Path | None = None, failures: Mapping[int, int] | None = None
    ) -> None:
        self.requests: list[Request] = []  # in the order of their answers
        self.failures = dict(failures or {})
        self._apis: tuple[Api, ...] = (Chat(), Responses(), Messages(), Gemini(), Converse())
        self._caches = {api.name: PromptCache() for api in self._apis}
        self._log = log
        self._run = secrets.token_hex(6)  # ids are unique, as a provider's are
        self._arrived = 0
        self._lock = threading.Lock()
        server = _Server(("127.0.0.1", port), _Handler)
        server.stub = self
        super().__init__(server)

    def fail_next(self, *statuses: int) -> None:
        """The next requests get these errors, one each."""
        with self._lock:
            self.failures.update(enumerate(statuses, self._arrived + 1))

    def api_of(self, path: str) -> Api | None:
        return next((api for api in self._apis if api.serves(path)), None)

    def arrive(self) -> tuple[str, int | None]:
        """The id of a request, and the status with which it is to fail."""
        with self._lock:
            self._arrived += 1
            return f"{self._run}{self._arrived:04d}", self.failures.get(self._arrived)

    def answer(self, api: Api, prompt: Prompt, request_id: str) -> Answer:
        calls = script.calls(prompt)
        text = "" if calls else script.answer(prompt)
        thought = script.THOUGHT if prompt.thinks else ""
        output = tokens(text) + sum(tokens(call.name + compact(call.arguments)) for call in calls)
        usage = self._caches[api.name].meter(prompt, api.automatic, output, tokens(thought))
        return Answer(request_id, prompt.model, int(time.time()), text, calls, thought, usage)

    def record(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            if self._log:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(compact(asdict(request)) + "\n")


class _Server(ThreadingHTTPServer):
    stub: ProviderStub
    request_queue_size = 128  # a burst of connections is not refused

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away at any time; what else fails here is a fault of the stub, and is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each event of a stream at once, not 40 ms later
    server: _Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        start, stub, path = time.time_ns(), self.server.stub, self.path.partition("?")[0]
        data = self._body()
        api = stub.api_of(path)
        if api is None:
            self._send_json(404, *openai_error(404, f"no such path: {path}"))
            return
        request_id, failure = stub.arrive()
        body: Json = {}
        try:
            body = json.loads(data)
            prompt = api.prompt(path, body)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            status = 400
            extra, response = api.error(status, f"malformed request: {error!r}")
        else:
            if failure is None:
                status = 200
                extra = {"request-id": f"req_{request_id}", "x-request-id": f"req_{request_id}"}
                response = api.response(stub.answer(api, prompt, request_id), body)
            else:
                status = failure
                extra, response = api.error(status, f"{status} on demand")
        headers = {name.lower(): value for name, value in self.headers.items()}
        usage = response.get("usage") or response.get("usageMetadata") or {}
        stub.record(Request(api.name, path, status, start, time.time_ns(), headers, body, response, usage))
        if status == 200 and api.streams(path, body):
            self._send_stream(extra, *api.stream(response, body))
        else:
            self._send_json(status, extra, response)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def _send_json(self, status: int, headers: Mapping[str, str], value: Json) -> None:
        data = compact(value).encode()
        self._head(status, {**headers, "content-type": "application/json", "content-length": str(len(data))})
        self.wfile.write(data)

    def _send_stream(self, headers: Mapping[str, str], content_type: str, chunks: Iterable[bytes]) -> None:
        self._head(200, {**headers, "content-type": content_type, "transfer-encoding": "chunked"})
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
