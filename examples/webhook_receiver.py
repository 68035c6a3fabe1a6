"""An endpoint for `webhook_fanout.py` that fails now and then.

    python examples/webhook_receiver.py

It listens on port 8070, or on the one that is given, and answers 503 to every third request.
"""

from __future__ import annotations

import sys
from itertools import count

from aiohttp import web


def receiver() -> web.Application:
    """An application that accepts and prints two of three posts."""
    requests = count(1)

    async def take(request: web.Request) -> web.Response:
        if next(requests) % 3 == 0:
            return web.Response(status=503)
        key = request.headers["Idempotency-Key"]
        print(request.path, key, (await request.text()).strip(), flush=True)
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    return app


if __name__ == "__main__":
    try:
        web.run_app(receiver(), host="127.0.0.1", port=int(sys.argv[1]) if sys.argv[1:] else 8070)
    except OSError as error:  # the port is taken
        sys.exit(str(error))
