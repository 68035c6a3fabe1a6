"""Watching a group over a connection: the request, the events, and what failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from coterie_client import checks
from coterie_client.directory.http_stream import EventStream, ServerEvent
from coterie_client.errors import (
    AnswerTimedOutError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    DirectoryRefusedError,
    UnknownHostError,
)
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.dialling import reach
from coterie_client.wire.tokens import no_token
from coterie_protocol.exceptions import CoterieError

if TYPE_CHECKING:
    import ssl

__all__ = ["HttpAddress", "Watching", "parse_addresses"]

_READ_BYTES: Final = 262_144
_CLOSE_S: Final = 1.0
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where a node answers HTTP."""

    host: str
    port: int
    is_https: bool

    def __str__(self) -> str:
        scheme = "https" if self.is_https else "http"
        return f"{scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(given: object) -> tuple[HttpAddress, ...]:
    """Addresses such as http://HOST:PORT or HOST:PORT, of which a string may have several."""
    if not isinstance(given, str | Iterable) or isinstance(given, bytes | bytearray):
        checks.must_be("http", "http://HOST:PORT, or several of that", given)
    several = given.split(",") if isinstance(given, str) else given
    found = dict.fromkeys(_address(each) for each in several if each != "")
    if not found:
        checks.must_be("http", "at least one address, as http://HOST:PORT", given)
    return tuple(found)


def _address(text: object) -> HttpAddress:
    what = "http://HOST:PORT or https://HOST:PORT, or several of that"
    if not isinstance(text, str):
        checks.must_be("http", what, text)
    text = text.strip()
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port or 0
    except ValueError:
        checks.must_be("http", what, text)
    if url.username or url.password:
        raise ConfigurationError("http must have no password in it; give the token by token=")
    is_bare = url.path in ("", "/") and not url.query and not url.fragment
    if url.scheme not in ("http", "https") or not url.hostname or not port or not is_bare:
        checks.must_be("http", what, text)
    return HttpAddress(url.hostname, port, url.scheme == "https")


class Watching:
    """Watches a group at one node after the other."""

    def __init__(
        self,
        group: str,
        token: Callable[[], str | None],
        tls: Callable[[], ssl.SSLContext],
        silence_s: float,
    ) -> None:
        self._path = f"/v1/groups/{quote(group, safe='')}/owners/watch"
        self._token = token
        self._tls = tls
        self._silence_s = silence_s

    async def run(
        self,
        address: HttpAddress,
        last_id: str,
        take: Callable[[ServerEvent], None],
        heard: Callable[[], None],
    ) -> None:
        """Watch at a node until it ends the watch; raises what goes wrong.

        `heard` is called whenever something comes, and `take` with each event.
        """
        reader, writer = await self._connect(address)
        try:
            writer.write(self._request(address, last_id))
            stream = EventStream()
            while not stream.is_over:
                data = await self._read(reader)
                for event in stream.feed(data):
                    take(event)
                if stream.status == _OK:
                    heard()
                if not data:
                    break
            if stream.status is None:
                raise ConnectionLostError("the connection ended before the answer")
            if stream.status != _OK:
                raise _refusal(stream)
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await writer.wait_closed()

    async def _connect(
        self, address: HttpAddress
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = self._tls() if address.is_https else None
        try:
            async with asyncio.timeout(self._silence_s):
                return await asyncio.open_connection(
                    sock=await _reach(address),
                    ssl=tls,
                    server_hostname=None if tls is None else address.host,
                )
        except TimeoutError:
            raise ConnectionFailedError(
                f"no connection to {address} within {self._silence_s:g} seconds"
            ) from None

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._silence_s):
                return await reader.read(_READ_BYTES)
        except TimeoutError:
            raise AnswerTimedOutError(
                f"nothing was heard for {self._silence_s:g} seconds"
            ) from None

    def _request(self, address: HttpAddress, last_id: str) -> bytes:
        lines = [
            f"GET {self._path} HTTP/1.1",
            f"Host: {address.netloc}",
            "Accept: text/event-stream",
            "Connection: close",
        ]
        # Of one that can't be sent back, another snapshot is what comes in its place.
        if last_id and last_id.isprintable():
            lines.append(f"Last-Event-ID: {last_id}")
        if token := self._current_token():
            lines.append(f"Authorization: Bearer {token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def _current_token(self) -> str | None:
        try:
            token: object = self._token()
        except CoterieError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # it can't be ours
            raise no_token(error) from error
        if token is not None and not (isinstance(token, str) and token.isprintable()):
            raise ConfigurationError("token must be one line of printable text")
        return token


async def _reach(address: HttpAddress) -> socket.socket:
    try:
        return await reach(NodeAddress(address.host, address.port))
    except socket.gaierror as error:
        raise UnknownHostError(
            f"The host {address.host} is not known here ({error.strerror}). Check the name."
        ) from error
    except TimeoutError:
        raise
    except OSError as error:
        raise ConnectionFailedError(f"no connection to {address}: {error}") from error


def _refusal(stream: EventStream) -> DirectoryRefusedError:
    name, sentence = "", f"the node answers with status {stream.status}"
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        told = json.loads(stream.refusal)
        name, sentence = str(told["error"]), str(told["message"])
    return DirectoryRefusedError(sentence, name, stream.status or 0)
