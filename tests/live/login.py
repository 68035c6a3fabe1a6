"""Logs in to a broker with a stock client, asks for the topics, and says how that went.

login.py CLIENT BOOTSTRAP MECHANISM USER SECRET [SECONDS]

With SECONDS it asks again and again for so long, with one client.  The variable PATIENCE_S bounds
how long it waits to be let in.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

#: It only bounds a failure, and machines may have much else to do.
_TIMEOUT_S: Final = float(os.environ.get("PATIENCE_S", "60"))
_LOOK_S: Final = 1.0


def by_kafka_python(bootstrap: str, mechanism: str, user: str, secret: str, seconds: float) -> int:
    from kafka import KafkaConsumer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        def token(self) -> str:
            return secret

    how: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": secret}
    if mechanism == "OAUTHBEARER":
        how = {"sasl_oauth_token_provider": Token()}
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        bootstrap_timeout_ms=int(_TIMEOUT_S * 1000),
        **how,
    )
    try:
        return _repeated(consumer.topics, seconds)
    finally:
        consumer.close()


def by_aiokafka(bootstrap: str, mechanism: str, user: str, secret: str, seconds: float) -> int:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.abc import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        async def token(self) -> str:
            return secret

    async def ask() -> int:
        how: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": secret}
        if mechanism == "OAUTHBEARER":
            how = {"sasl_oauth_token_provider": Token()}
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            **how,
        )
        try:
            await consumer.start()
            return await _repeated_async(consumer.topics, seconds)
        finally:
            await consumer.stop()

    return asyncio.run(ask())


def by_confluent(bootstrap: str, mechanism: str, user: str, secret: str, seconds: float) -> int:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    told: list[str] = []
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": secret,
        "log_level": 0,
        "error_cb": lambda error: told.append(error.str()),
    }
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (secret, time.time() + 600)
    admin = AdminClient(config)
    admin.poll(0.2)

    def ask() -> object:
        until = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return admin.list_topics(timeout=_LOOK_S).topics
            except KafkaException as error:
                admin.poll(0.1)  # only then it says why
                if told or time.monotonic() > until:
                    raise ConnectionError(f"{error} {told[:1]}") from None

    return _repeated(ask, seconds)


def by_coterie(bootstrap: str, mechanism: str, user: str, secret: str, seconds: float) -> int:
    from coterie import Admin, Sasl, Security

    async def ask() -> int:
        if mechanism == "OAUTHBEARER":
            sasl = Sasl(mechanism, token=lambda: secret)
        else:
            sasl = Sasl(mechanism, user, secret)
        async with Admin(bootstrap, security=Security(sasl=sasl)) as admin:
            return await _repeated_async(admin.topics.list, seconds)

    return asyncio.run(ask())


def _repeated(ask: Callable[[], object], seconds: float) -> int:
    until = time.monotonic() + seconds
    count = 0
    while not count or time.monotonic() < until:
        ask()
        count += 1
        time.sleep(0.05 if seconds else 0)
    return count


async def _repeated_async(ask: Callable[[], Awaitable[object]], seconds: float) -> int:
    until = time.monotonic() + seconds
    count = 0
    while not count or time.monotonic() < until:
        await ask()
        count += 1
        await asyncio.sleep(0.05 if seconds else 0)
    return count


if __name__ == "__main__":
    client, *given = sys.argv[1:]
    try:
        times = globals()[f"by_{client}"](*given[:4], float(given[4]) if given[4:] else 0.0)
    except Exception as error:  # noqa: BLE001  # each client has its own
        print(f"out: {type(error).__name__}: {error}"[:500])  # noqa: T201
    else:
        print(f"in, {times} times")  # noqa: T201
