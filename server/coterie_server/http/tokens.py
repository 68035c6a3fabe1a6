"""Who may read, and who may act, over HTTP: those who send a token that is known.

Without any token there is no such question, as on an address that only this machine reaches.  A
token for those who act is good for reading as well.  Other nodes on the same store have a token of
their own, which they all derive from a secret in it.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, final

from aiohttp import web
from aiohttp.typedefs import Middleware

from coterie_server.http.answers import error
from coterie_server.log.logger import get_logger, shortened

__all__ = ["MAY_READ", "TokenError", "TokenOptions", "Tokens", "node_token", "require_token"]

_log = get_logger(__name__)

#: In a request, whether its client may read.
MAY_READ: Final = web.RequestKey("may_read", bool)

#: These are answered to all; without a token, the latter says no reasons.
_FREE: Final = frozenset({"/healthz", "/readyz"})
#: The console's own files are the same everywhere, and browsers load them before they can ask for a
#: token.
_CONSOLE: Final = "/console/"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SCHEME: Final = "bearer"
#: A client that tries tokens must not fill the disk with what is logged of it.
_LINES_PER_SECOND: Final = 10
#: Nor must one that asks for pages with long names.
_PATH_MAX: Final = 500

_READ: Final = "http.read.token"
_ADMIN: Final = "http.admin.token"

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TokenError(Exception):
    """A token can't be had; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """The tokens, or the files that they are in."""

    read: str = field(default="", repr=False)
    read_file: str = ""
    admin: str = field(default="", repr=False)
    admin_file: str = ""


def node_token(secret: str) -> str:
    """The token of nodes, from the secret that they share."""
    return hmac.digest(secret.encode(), b"http", "sha256").hex()


@final
class Tokens:
    """The tokens that are known."""

    def __init__(self, options: TokenOptions | None = None) -> None:
        """Read the files, or raise `TokenError`."""
        self._options = options = options or TokenOptions()
        self._read = _token(_READ, options.read, options.read_file)
        self._admin = _token(_ADMIN, options.admin, options.admin_file)
        self._node: bytes | None = None
        #: The requests that are being answered, and the tokens that they came with.
        self._under_way: dict[int, tuple[web.Request, str | None]] = {}

    def reload(self) -> None:
        """Read the files again; if one can't be read, keep its token, and log why."""
        options = self._options
        self._read = _again(self._read, _READ, options.read, options.read_file)
        self._admin = _again(self._admin, _ADMIN, options.admin, options.admin_file)
        for request, sent in list(self._under_way.values()):
            if not self.lets(request, sent) and request.transport is not None:
                request.transport.abort()

    def lets(self, request: web.Request, sent: str | None) -> bool:
        """Whether those who sent this token may have a request answered."""
        return self.may_read(sent) if request.method in _READING else self.may_act(sent)

    @contextmanager
    def under_way(self, request: web.Request, sent: str | None) -> Iterator[None]:
        """Hang up if the token is none any more: a watch has no next request to be refused."""
        self._under_way[id(request)] = request, sent
        try:
            yield
        finally:
            del self._under_way[id(request)]

    def admit_nodes(self, token: str) -> None:
        """Let nodes act that send this token."""
        self._node = _digest(token)

    @property
    def guard_reading(self) -> bool:
        """Whether those who read need a token."""
        return self._read is not None

    @property
    def guard_acting(self) -> bool:
        """Whether those who act need a token; it may be that none has one."""
        return self._read is not None or self._admin is not None

    @property
    def lets_act(self) -> bool:
        """Whether there is a token with which to act."""
        return self._admin is not None or not self.guard_acting

    def may_read(self, sent: str | None) -> bool:
        """Whether those may read who sent this token."""
        return self._is(sent, self._read) or self.may_act(sent) or not self.guard_reading

    def may_act(self, sent: str | None) -> bool:
        """Whether those may act who sent this token."""
        known = self._is(sent, self._admin), self._is(sent, self._node)
        return any(known) or not self.guard_acting

    @staticmethod
    def _is(sent: str | None, known: bytes | None) -> bool:
        # Digests have one length, and comparing them takes one time whatever is sent.
        return sent is not None and known is not None and hmac.compare_digest(_digest(sent), known)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _token(setting: str, token: str, file: str) -> bytes | None:
    if token and file:
        raise TokenError(f"{setting} and {setting}.file are both set; keep one.")
    if not file:
        return _digest(token) if token else None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise TokenError(f"{setting}.file = {file} can't be read: {why}.") from problem
    if not found:
        raise TokenError(f"{setting}.file = {file} is empty; write a token into it.")
    return _digest(found)


def _again(before: bytes | None, setting: str, token: str, file: str) -> bytes | None:
    """The token as it is now, or as it was if it can't be read."""
    try:
        return _token(setting, token, file)
    except TokenError as problem:
        _log.error("HTTP token not readable, the former one is kept", reason=str(problem))
        return before


def require_token(tokens: Tokens) -> Middleware:
    """A middleware that refuses requests without the token that they need."""
    refusals = _Refusals()

    @web.middleware
    async def check(request: web.Request, handler: _Page) -> web.StreamResponse:
        sent = _sent(request)
        request[MAY_READ] = tokens.may_read(sent)
        if _is_free(request):
            return await handler(request)
        if tokens.lets(request, sent):
            with tokens.under_way(request, sent):
                return await handler(request)
        if sent is None or not request[MAY_READ]:
            refusals.note(request, "no token" if sent is None else "unknown token")
            message = "This needs a token, sent as Authorization: Bearer TOKEN."
            answer = error(HTTPStatus.UNAUTHORIZED, "unauthorized", message)
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        refusals.note(request, "a token for reading only")
        message = "This token is for reading only; to act takes that of http.admin.token."
        if not tokens.lets_act:
            message = "No token lets act over HTTP here, as http.admin.token is not set."
        return error(HTTPStatus.FORBIDDEN, "forbidden", message)

    return check


def _is_free(request: web.Request) -> bool:
    path = request.path
    if path in _FREE:
        return True
    return request.method in _READING and (path == "/" or path.startswith(_CONSOLE))


def _sent(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == _SCHEME and token.strip() else None


class _Refusals:
    """Logs who was refused, unless there are too many."""

    def __init__(self) -> None:
        self._second, self._lines = 0, 0

    def note(self, request: web.Request, why: str) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._lines > _LINES_PER_SECOND:
                _log.warning("more HTTP requests refused", requests=self._lines - _LINES_PER_SECOND)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= _LINES_PER_SECOND:
            _log.warning(
                "HTTP request refused",
                why=why,
                method=request.method,
                path=shortened(request.path, _PATH_MAX),
                peer=request.remote,
            )
