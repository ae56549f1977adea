"""HTTP: accept in the request, answer 202, run outside of it.

The client may go away, retry, or cancel; the run does not belong to the request. A retry with the
same run id finds the same run instead of starting a second one. Needs `pip install
sessionsched[http]`; serve `app` with any ASGI server, or run this file to see it work.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from sessionsched import (
    DuplicateRun,
    LineFull,
    Refused,
    Run,
    Scheduler,
    SchedulerClosed,
    SessionBusy,
    WhenBusy,
)

#: What each refusal means to an HTTP client; everything else that is refused is its own mistake.
STATUS_CODES = {SessionBusy: 409, DuplicateRun: 409, LineFull: 429, SchedulerClosed: 503}


async def agent(run: Run[str]) -> str:
    await asyncio.sleep(0.05)
    return run.prompt.upper()


async def submit(request: Request) -> JSONResponse:
    """POST /chats/{chat}/runs: take the prompt in, and say where to look for its outcome."""
    scheduler: Scheduler[str, str] = request.app.state.scheduler
    body = await request.json()
    # Accepted first: while we still store things, the run can be seen, canceled, queued behind.
    with scheduler.accept(
        request.path_params["chat"],
        body["prompt"],
        run_id=body.get("run_id"),
        when_busy=WhenBusy(body.get("when_busy", "queue")),
    ) as ticket:
        await asyncio.sleep(0)  # here a host would write the prompt to its database
        ticket.ready()
    return JSONResponse({"run_id": ticket.run_id, "seq": ticket.seq}, 202)


async def look(request: Request) -> JSONResponse:
    """GET /runs/{run_id}: how it stands, or how it ended."""
    scheduler: Scheduler[str, str] = request.app.state.scheduler
    handle = scheduler.find(request.path_params["run_id"])
    if handle is None:
        return JSONResponse({"error": "no such run, or it ended long ago"}, 404)
    outcome = handle.run.ended
    if outcome is None:
        return JSONResponse({"state": handle.state, "why": str(scheduler.explain(handle.run_id))})
    return JSONResponse({"state": outcome.status, "cause": outcome.cause, "result": outcome.result})


async def cancel(request: Request) -> JSONResponse:
    """DELETE /chats/{chat}/runs?up_to=seq: a cancel that comes late can't hit a newer prompt."""
    scheduler: Scheduler[str, str] = request.app.state.scheduler
    fence = request.query_params.get("up_to")
    receipt = scheduler.cancel(request.path_params["chat"], up_to=int(fence) if fence else None)
    return JSONResponse({"canceled": [run.run_id for run in receipt.covered]})


async def refused(_request: Request, error: Exception) -> JSONResponse:
    """Say why a prompt was not taken. Nothing has changed then, so the client may try again."""
    code = next((code for kind, code in STATUS_CODES.items() if isinstance(error, kind)), 400)
    return JSONResponse({"error": str(error)}, code)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with Scheduler(agent) as scheduler:
        app.state.scheduler = scheduler
        yield
        await scheduler.close(drain=10)  # a deploy: let what is active finish


app = Starlette(
    routes=[
        Route("/chats/{chat}/runs", submit, methods=["POST"]),
        Route("/chats/{chat}/runs", cancel, methods=["DELETE"]),
        Route("/runs/{run_id}", look),
    ],
    exception_handlers={Refused: refused, KeyError: refused, ValueError: refused},
    lifespan=lifespan,
)


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with (
        lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://host") as client,
    ):
        prompt = {"prompt": "hello", "run_id": "r-1"}
        for _ in ("the first time", "a retry"):
            answer = await client.post("/chats/one/runs", json=prompt)
            print(answer.status_code, answer.json())
        answer = await client.post("/chats/one/runs", json={"prompt": "other", "run_id": "r-1"})
        print(answer.status_code, answer.json())
        await client.post("/chats/one/runs", json={"prompt": "no, wait", "run_id": "r-2"})
        print((await client.get("/runs/r-2")).json())
        print((await client.delete("/chats/one/runs?up_to=1")).json())
        await app.state.scheduler.find("r-2")
        for run_id in ("r-1", "r-2"):
            print((await client.get(f"/runs/{run_id}")).json())


if __name__ == "__main__":
    asyncio.run(main())
