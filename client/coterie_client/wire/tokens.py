"""Where tokens for OAUTHBEARER come from."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from coterie_client.errors import ConfigurationError, ConnectionFailedError
from coterie_client.wire.credentials import TokenSource, checked_token
from coterie_client.wire.threads import refuse_without_threads, run_in_thread
from coterie_client.wire.tls import Tls
from coterie_protocol.exceptions import CoterieError

__all__ = ["ClientCredentials", "TokenFile", "current_token", "no_token"]

#: No token is nearly as large; what is may be a device that never ends.
_SIZE_MAX: Final = 100_000
_TIMEOUT_S: Final = 10.0
_OK: Final = 200

#: Calls of functions that nobody waits for any more, by the functions' ids: whoever asks the same
#: function next waits for such a call, so that the retries of what hangs take no further threads.
_left_behind: Final[dict[int, set[Future[object]]]] = {}


async def current_token(source: str | TokenSource) -> str:
    """The token to connect with now.

    A function that does not let go when it is cancelled, or can't, is left behind.
    """
    if isinstance(source, str):
        return source
    asking = asyncio.create_task(_ask(source))
    try:
        await asyncio.wait([asking])
    except asyncio.CancelledError:
        asking.add_done_callback(_drop)
        asking.cancel()
        raise
    try:
        return checked_token(asking.result())
    except (CoterieError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a cancellation of its own, too
        raise no_token(error) from error


async def _ask(source: TokenSource) -> object:
    # Any but a coroutine function may read a file, or ask a server.
    found: object
    found = source() if inspect.iscoroutinefunction(source) else await _in_thread(source)
    return await found if inspect.isawaitable(found) else found


async def _in_thread(source: TokenSource) -> object:
    refuse_without_threads()
    waiting = _left_behind.get(id(source), set())
    # One that has ended meanwhile may have a token that is as old as the attempt before.
    call = next((each for each in tuple(waiting) if not each.done()), None)
    if call is None:
        call = Future()
        call.add_done_callback(partial(_forget, id(source)))
        run_in_thread(partial(_call, source), call, "coterie token")
    waiting.discard(call)
    try:
        return await asyncio.wrap_future(call)
    finally:
        if not call.done():
            _left_behind.setdefault(id(source), set()).add(call)


def _call(source: TokenSource) -> object:
    """Call a function; what a thread does."""
    try:
        return source()
    except StopIteration as error:  # no future takes it
        raise no_token(error) from error


def _forget(source_id: int, call: Future[object]) -> None:
    """Let go of a call that has ended: its id may be another function's soon."""
    waiting = _left_behind.get(source_id, set())
    waiting.discard(call)
    if not waiting:
        _left_behind.pop(source_id, None)


def _drop(asking: asyncio.Task[object]) -> None:
    """Keep asyncio from complaining of what a function raised that nobody waited for."""
    if not asking.cancelled():
        asking.exception()


# A child that is forked has none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_left_behind.clear)


def no_token(error: BaseException) -> ConnectionFailedError:
    """What is said of a function that gave no token: it is asked again, as it may do so later.

    Its own words may have a secret in them.
    """
    return ConnectionFailedError(f"the function that gives tokens failed ({type(error).__name__})")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Reads the token from a file, which may be replaced at any time.

    A file that can't be used may be on its way: the connection has failed, and is tried again.
    """

    path: Path

    def __call__(self) -> str:
        """Return what is in the file."""
        try:
            with self.path.open(encoding="ascii") as file:
                text = file.read(_SIZE_MAX + 1)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not ASCII text"
            raise ConnectionFailedError(
                f"the token in {self.path} can't be read: {reason}"
            ) from None
        try:
            return checked_token(text.strip() if len(text) <= _SIZE_MAX else "")
        except ConfigurationError:
            raise ConnectionFailedError(f"{self.path} holds no bearer token") from None


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Asks an authorization server for a token, by OAuth 2's grant of client credentials."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    #: Whom to trust as the server; its certificate is checked in any case.
    tls: Tls = field(default_factory=Tls)

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigurationError("the URL of the token endpoint must be https://HOST/PATH")

    def __call__(self) -> str:
        """Return a new token."""
        from http.client import HTTPException  # noqa: PLC0415  # few ask for tokens

        try:
            status, body = self._ask()
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise ConnectionFailedError(
                f"the token endpoint {self.endpoint} does not answer: {reason}"
            ) from error
        if status != _OK:
            raise ConnectionFailedError(
                f"the token endpoint {self.endpoint} refuses the client {self.client_id!r} with"
                f" status {status}"
            )
        try:
            return checked_token(json.loads(body)["access_token"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConnectionFailedError(
                f"the token endpoint {self.endpoint} answers without a token"
            ) from None

    def _ask(self) -> tuple[int, bytes]:
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  # as above

        # Redirects are not followed: the secret is for this address alone.
        parts = urlsplit(self.endpoint)
        host = parts.hostname or ""
        connection: HTTPConnection
        if parts.scheme == "https":
            context = self.tls.ready_context
            connection = HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=context)
        else:
            connection = HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        with closing(connection):
            connection.request("POST", path, urlencode(form), headers)
            response = connection.getresponse()
            return response.status, response.read(_SIZE_MAX)
