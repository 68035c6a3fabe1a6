"""Deliver every event to every endpoint, to each in order and at its own pace.

    coterie serve
    python examples/webhook_receiver.py
    python examples/webhook_fanout.py worker-1
    echo '{"order": 17}' >> events.jsonl

A partition is an endpoint, and its offset is the number of events delivered there. Start worker-2
as well, and it takes over half of the endpoints. Stop one and start it again, as a rollout does:
the coordinator knows its name and waits for it, so nothing moves and the other one is not
disturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import aiohttp

from coterie_client import Admin, Group, Partition
from coterie_protocol.errors import TopicAlreadyExistsError
from coterie_protocol.exceptions import CoterieError

TOPIC: Final = "endpoints"
ENDPOINTS: Final = tuple(f"http://127.0.0.1:8070/hook/{number}" for number in range(6))
POLL_INTERVAL_S: Final = 0.2
#: How long a restart may take before the others take over the worker's endpoints.
SESSION_TIMEOUT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0

#: Status codes after which to retry, besides all 5xx.
_RETRIED: Final = (408, 425, 429)

log = logging.getLogger(TOPIC)


@dataclass(frozen=True, slots=True)
class Fanout:
    """Delivers the events of a file to endpoints."""

    events: Path
    endpoints: Sequence[str]
    session: aiohttp.ClientSession

    async def work(self, endpoint: Partition) -> None:
        """Deliver to one endpoint what it has not got yet."""
        url = self.endpoints[endpoint.number]
        position = await endpoint.committed()
        done = position.offset if position is not None else 0
        log.info("%s begins at %d", url, done)
        while True:
            for event in self._after(done):
                await self._deliver(url, done, event)
                done += 1
                await endpoint.commit(done)
            await asyncio.sleep(POLL_INTERVAL_S)

    def _after(self, count: int) -> list[bytes]:
        """The events after the first `count`; an incomplete last line is left out."""
        if not self.events.exists():
            return []
        with self.events.open("rb") as lines:
            return [line for line in islice(lines, count, None) if line.endswith(b"\n")]

    async def _deliver(self, url: str, number: int, event: bytes) -> None:
        """Post an event until it is accepted, or refused for good."""
        # After a crash it may be delivered twice; the receiver can tell by its key.
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(number)}
        for pause_s in pauses():
            try:
                async with self.session.post(url, data=event, headers=headers) as answer:
                    status = answer.status
            except (aiohttp.ClientError, TimeoutError) as error:
                log.warning("%s not reached for event %d: %r", url, number, error)
            else:
                if status < 500 and status not in _RETRIED:
                    outcome = "took" if status < 300 else "refused"
                    log.info("%s %s event %d: %d", url, outcome, number, status)
                    return
                log.warning("%s did not take event %d: %d", url, number, status)
            await asyncio.sleep(pause_s)


def pauses() -> Iterator[float]:
    """Pauses in seconds that double up to a limit, with jitter."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secrets
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def main(name: str, bootstrap: str, events: Path, endpoints: Sequence[str]) -> None:
    """Deliver until stopped."""
    async with Admin(bootstrap) as admin:
        with suppress(TopicAlreadyExistsError):
            await admin.topics.create(TOPIC, partitions=len(endpoints))
    group = Group(
        bootstrap,
        "fanout",
        topics=[TOPIC],
        instance=name,
        session_timeout=SESSION_TIMEOUT_S,
        stop_on_signals=True,
    )
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session, group:
        await group.run(Fanout(events, endpoints, session).work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Deliver events to endpoints.")
    parser.add_argument("name", help="the worker's name, the same after each restart")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--events", type=Path, default=Path("events.jsonl"))
    parser.add_argument("--to", nargs="+", default=ENDPOINTS, help="URLs, the same for all workers")
    options = parser.parse_args()
    # Coterie's client logs here as well; it prints nothing by itself.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Once there is a group, Ctrl-C and SIGTERM end it in good order.
    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(main(options.name, options.bootstrap, options.events, options.to))
        except CoterieError as error:  # such as: there is no coordinator
            sys.exit(str(error))
