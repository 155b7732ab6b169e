"""A port for those who look after the gateway: is it alive, does it take requests, and its metrics."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from otel_ctx.live.gateway.exposition import Exposition


def application(exposition: Exposition, ready: Callable[[], bool]) -> Starlette:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("not ready\n", 503)

    async def metrics(request: Request) -> Response:
        text, kind = await run_in_threadpool(exposition.render, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    )
