"""Where commands connect, and what becomes of what goes wrong there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import typer

from coterie_cli.doing.quiet import quiet
from coterie_cli.options import PASSWORD, Target
from coterie_client.admin import Admin
from coterie_client.admin.caller import Timing
from coterie_client.errors import ConfigurationError, ConnectionFailedError
from coterie_client.wire import PLAINTEXT, Sasl, Security, Tls
from coterie_protocol.errors import RetriableKafkaError
from coterie_protocol.exceptions import CoterieError

__all__ = [
    "FAILED",
    "MISUSED",
    "UNREACHABLE",
    "administer",
    "ask_http",
    "give_up",
]

T = TypeVar("T")

#: What exit codes mean: the server said no; the command makes no sense; nobody answered.
FAILED: Final = 1
MISUSED: Final = 2
UNREACHABLE: Final = 3

#: A person waits for it.
_TIMING: Final = Timing(timeout_ms=15_000, request_timeout_ms=10_000)
_HTTP_TIMEOUT_S: Final = 10.0


def _security(target: Target) -> Security:
    """What the client needs to know of how to get in."""
    if not (target.tls or target.user or target.ca_file):
        return PLAINTEXT
    tls = Tls(cafile=target.ca_file) if target.tls or target.ca_file else None
    if target.user is None:
        return Security(tls=tls)
    password = os.environ.get(PASSWORD)
    if password is None:
        raise ConfigurationError(f"Put {target.user}'s password into {PASSWORD}.")
    return Security(tls=tls, sasl=Sasl(target.mechanism, target.user, password))


def give_up(sentence: str, code: int) -> NoReturn:
    """Say why it can't be done, and end."""
    typer.secho(sentence, fg=typer.colors.RED, err=True)
    raise typer.Exit(code)


def administer(target: Target, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Do something as an administrator; what goes wrong ends the command with a sentence."""

    async def run() -> T:
        async with Admin(target.bootstrap, security=_security(target), timing=_TIMING) as admin:
            return await work(admin)

    try:
        with quiet():
            return asyncio.run(run())
    except ConfigurationError as error:
        give_up(str(error), MISUSED)
    except ConnectionFailedError as error:
        give_up(str(error), UNREACHABLE)
    except RetriableKafkaError as error:
        give_up(f"{str(error).rstrip('.')}. It may work later.", FAILED)
    except CoterieError as error:
        give_up(str(error), FAILED)
    except KeyboardInterrupt:
        sys.exit(130)


def ask_http(http: str, path: str, *, post: bool = False) -> Any:  # noqa: ANN401  # any JSON
    """Ask a node over HTTP; what goes wrong ends the command with a sentence."""
    url = f"http://{http}{path}"
    request = urllib.request.Request(url, method="POST" if post else "GET")  # http
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        give_up(_sentence(error), FAILED)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        give_up(
            f"No answer from {url}: {reason}. Say where the node answers HTTP with --http.",
            UNREACHABLE,
        )


def _sentence(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError):
        return f"{error.url} answers {error.code} {error.reason}."
