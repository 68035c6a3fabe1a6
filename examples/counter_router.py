"""A router in front of counter_service.py: it sends each request to the owner of the counter.

    python examples/counter_router.py --port 8080

It watches the group, and so knows the owners without asking for each request. A request whose
owner dies, or does not own the shard any more, goes to the next owner. It may have been counted
before its owner died, so clients give each write an id of their own, as Idempotency-Key.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web

from coterie_client import Directory, NoOwnerError

GROUP: Final = "counters"
TOPIC: Final = "counters"
HEADER: Final = "Fencing-Token"
#: How long a request may look for its owner: longer than the session of one that was killed.
PATIENCE_S: Final = 30.0
PAUSE_S: Final = 0.1

log = logging.getLogger("router")


@dataclass(frozen=True, slots=True)
class Router:
    """Sends requests to owners."""

    directory: Directory
    session: aiohttp.ClientSession

    async def count(self, request: web.Request) -> web.Response:
        """Pass a write on to the owner of its counter."""
        if "Idempotency-Key" not in request.headers:
            raise web.HTTPBadRequest(text="Give each write an Idempotency-Key of its own.\n")
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    answer = await self._try(request)
                    if answer is not None:
                        return answer
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            raise web.HTTPServiceUnavailable(
                text="The counter has no owner; try again.\n"
            ) from None

    async def _try(self, request: web.Request) -> web.Response | None:
        """The owner's answer; None if it is to be asked for once more."""
        counter = request.match_info["counter"]
        try:
            owner = await self.directory.owner(key=counter, topic=TOPIC, wait=PATIENCE_S)
        except NoOwnerError as error:
            log.warning("%s", error)
            return None
        headers = {
            "Idempotency-Key": request.headers["Idempotency-Key"],
            HEADER: str(owner.token or 0),
        }
        url = f"http://{owner.address}{request.rel_url.raw_path}"
        try:
            async with self.session.post(url, headers=headers) as answer:
                if answer.status in (421, 500, 503):  # not the owner, or not for long any more
                    return None
                body = await answer.read()
                return web.Response(
                    status=answer.status, body=body, content_type=answer.content_type
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            log.warning("%s at %s: %r", counter, owner.address, error)
            return None


async def main(http: str, port: int) -> None:
    """Route until stopped."""
    timeout = aiohttp.ClientTimeout(total=2)
    async with (
        Directory(http, GROUP) as directory,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        app = web.Application()
        app.router.add_post("/counters/{counter}", Router(directory, session).count)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        log.info("routes on port %d", port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Send requests to the owners of counters.")
    parser.add_argument("--http", default="127.0.0.1:9080", help="where nodes answer HTTP")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(main(options.http, options.port))
        except OSError as error:  # the port is taken
            sys.exit(str(error))
