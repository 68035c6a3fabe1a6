"""How commands reach a node, by Kafka's protocol or by HTTP, and what they say when they can't."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from coterie_cli.options import PASSWORD, Target
from coterie_cli.output import FAILED, MISUSED, UNREACHABLE, fail

if TYPE_CHECKING:
    import urllib.error

    from coterie_client.admin import Admin
    from coterie_client.wire import Security

__all__ = ["administer", "ask_http", "silenced"]

T = TypeVar("T")

#: A person waits for the answer.
_TIMEOUT_MS: Final = 15_000
_REQUEST_TIMEOUT_MS: Final = 10_000
_HTTP_TIMEOUT_S: Final = 10.0


def administer(target: Target, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Let `work` use an administrator's client; an error ends the command with a sentence."""
    import asyncio

    from coterie_client.admin import Admin
    from coterie_client.admin.caller import Timing
    from coterie_client.errors import ConfigurationError, ConnectionFailedError
    from coterie_protocol.errors import RetriableKafkaError
    from coterie_protocol.exceptions import CoterieError

    timing = Timing(timeout_ms=_TIMEOUT_MS, request_timeout_ms=_REQUEST_TIMEOUT_MS)

    async def run() -> T:
        async with Admin(target.bootstrap, security=_security(target), timing=timing) as admin:
            return await work(admin)

    try:
        with silenced():
            return asyncio.run(run())
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    except ConnectionFailedError as error:
        fail(str(error), UNREACHABLE)
    except RetriableKafkaError as error:
        fail(f"{str(error).rstrip('.')}. It may work later.", FAILED)
    except CoterieError as error:
        fail(str(error), FAILED)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _security(target: Target) -> Security:
    from coterie_client.errors import ConfigurationError
    from coterie_client.wire import PLAINTEXT, Sasl, Security, Tls

    if not (target.tls or target.user or target.ca_file):
        return PLAINTEXT
    tls = Tls(cafile=target.ca_file) if target.tls or target.ca_file else None
    if target.user is None:
        return Security(tls=tls)
    password = os.environ.get(PASSWORD)
    if password is None:
        raise ConfigurationError(f"Put {target.user}'s password into {PASSWORD}.")
    return Security(tls=tls, sasl=Sasl(target.mechanism, target.user, password))


def ask_http(http: str, path: str, *, post: bool = False) -> Any:  # noqa: ANN401  # any JSON
    """Ask a node over HTTP; an error ends the command with a sentence."""
    import json
    import urllib.error
    import urllib.request

    url = f"http://{http}{path}"
    request = urllib.request.Request(url, method="POST" if post else "GET")  # http
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        fail(_refusal(error), FAILED)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        fail(
            f"No answer from {url}: {reason}. Say where the node answers HTTP with --http.",
            UNREACHABLE,
        )


def _refusal(error: urllib.error.HTTPError) -> str:
    import json

    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError):
        return f"{error.url} answers {error.code} {error.reason}."


@contextmanager
def silenced() -> Iterator[None]:
    """Keep client and server from logging between the lines that the command prints."""
    import logging

    client = logging.getLogger("coterie_client")
    level = client.level
    client.setLevel(logging.CRITICAL)
    try:
        # Where there is no structlog yet, there is no server that would use it.
        with _silenced_structlog() if "structlog" in sys.modules else nullcontext():
            yield
    finally:
        client.setLevel(level)


@contextmanager
def _silenced_structlog() -> Iterator[None]:
    import logging

    import structlog

    was_configured, before = structlog.is_configured(), structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()
