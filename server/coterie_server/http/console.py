"""The console: a page for browsers, and what it asks first.

Its files belong to the package and are read once, so no path that a browser asks for is ever looked
for in a file system.  They come with a policy by which a browser runs no other script than theirs,
whatever names of groups look like, and sends what they learn to no other site.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Final, final

from aiohttp import web

from coterie_protocol.version import VERSION
from coterie_server.http.answers import as_json

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from coterie_server.http.node_view import NodeView
    from coterie_server.http.tokens import Tokens

__all__ = ["ConsoleFacts", "ConsolePages", "add_console"]

_PACKAGE: Final = "coterie_server.console"
_INDEX: Final = "index.html"

_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

#: No script or style but those of the page's own files, no other site, no frame around it, and no
#: text that is made into elements.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Browsers keep the files and ask whether they are still the same, as after an upgrade.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    content_type: str
    etag: str


def _read_files() -> dict[str, _File]:
    """The files by their paths below `/console/`."""
    return {path: _read(found) for path, found in _walk(files(_PACKAGE), "")}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        elif _suffix(each.name) in _TYPES:
            yield f"{prefix}{each.name}", each


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return dot + suffix if stem else ""


def _read(found: Traversable) -> _File:
    body = found.read_bytes()
    return _File(body, _TYPES[_suffix(found.name)], hashlib.sha256(body).hexdigest()[:32])


def add_console(app: web.Application) -> None:
    """Have an application show the console's files, at `/` and below `/console/`."""
    known = _read_files()

    async def show(request: web.Request) -> web.Response:
        found = known.get(request.match_info.get("path", _INDEX))
        if found is None:
            raise web.HTTPNotFound
        etags = request.if_none_match or ()
        if any(each.value in (found.etag, "*") for each in etags):
            answer = web.Response(status=HTTPStatus.NOT_MODIFIED, headers=_HEADERS)
        else:
            answer = web.Response(
                body=found.body,
                content_type=found.content_type,
                charset="utf-8",
                headers=_HEADERS,
            )
        answer.etag = found.etag
        return answer

    app.add_routes([web.get("/", show), web.get("/console/{path:.+}", show)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFacts:
    """What the console asks first: over what it is, and what can be done there."""

    #: `live` over a node, `journal` over what one wrote down.
    mode: str
    node: str | None
    version: str = VERSION
    #: `open` if all may act, `token` if that takes a token, `none` if no request can act.
    actions: str
    #: Whether a group's past can be asked for.
    past: bool
    #: The actions that there are.
    operations: Sequence[str]

    def answer(self) -> web.Response:
        """The facts as JSON."""
        return as_json(asdict(self))


@final
class ConsolePages:
    """Says what the console of a node can do."""

    def __init__(
        self, node: NodeView, tokens: Tokens, operations: Sequence[str], *, has_past: bool = False
    ) -> None:
        self._node = node
        self._tokens = tokens
        self._operations = tuple(operations)
        self._has_past = has_past

    async def facts(self, _request: web.Request) -> web.Response:
        """Answer the console's first question."""
        self._node.require_open()
        facts = ConsoleFacts(
            mode="live",
            node=str(self._node.node_id),
            actions=self._actions(),
            past=self._has_past,
            operations=self._operations,
        )
        return facts.answer()

    def _actions(self) -> str:
        if not self._tokens.guard_acting:
            return "open"
        return "token" if self._tokens.lets_act else "none"
