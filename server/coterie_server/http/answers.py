"""The answers of the HTTP pages, as JSON, and what is answered before a page is asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from aiohttp import ClientConnectionResetError, web
from aiohttp.typedefs import Middleware

from coterie_server.frames_of_errors import without_frames
from coterie_server.group import Refusal
from coterie_server.http.access import AllowedHosts
from coterie_server.log.logger import get_logger

__all__ = [
    "GROUP_PATH",
    "as_json",
    "bad_request",
    "error",
    "errors_as_json",
    "json_body",
    "not_ready",
    "refuse_encoded",
    "refuse_other_hosts",
]

_log = get_logger(__name__)

#: Where a group of any name is, percent-encoded: aiohttp's own pattern of names takes no braces.
GROUP_PATH: Final = "/v1/groups/{group:[^/]+}"

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Probes and scrapers ask by the name of a service, whatever that is, and what they see is not
#: secret: whether the node is well, and numbers without the names of groups or members.
_BY_ANY_NAME: Final = frozenset({"/healthz", "/readyz", "/metrics"})

_dumps: Final = partial(json.dumps, separators=(",", ":"))


def as_json(values: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """An answer of JSON."""
    return web.json_response(values, status=status, dumps=_dumps)


def json_body(body: bytes) -> web.Response:
    """An answer that is JSON already."""
    return web.Response(body=body, content_type="application/json", charset="utf-8")


def error(status: HTTPStatus, name: str, message: str) -> web.Response:
    """An answer that says what is wrong, to programs by a name."""
    return as_json({"error": name, "message": message}, status)


def not_ready(reason: str) -> Refusal:
    """What a node says that does not serve now."""
    return Refusal("not_ready", reason)


def bad_request(sentence: str) -> Refusal:
    """What is said of a request that asks for nothing that could be."""
    return Refusal("bad_request", sentence)


#: The status of some refusals; any other is a conflict with the state that the group is in.
_REFUSALS: Final[Mapping[str, HTTPStatus]] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "group_not_found": HTTPStatus.NOT_FOUND,
    "member_not_found": HTTPStatus.NOT_FOUND,
    "misdirected": HTTPStatus.MISDIRECTED_REQUEST,
    "not_available": HTTPStatus.SERVICE_UNAVAILABLE,
    "not_ready": HTTPStatus.SERVICE_UNAVAILABLE,
    "partition_not_found": HTTPStatus.NOT_FOUND,
    "request_timeout": HTTPStatus.REQUEST_TIMEOUT,
    "too_many_watchers": HTTPStatus.SERVICE_UNAVAILABLE,
    "topic_not_found": HTTPStatus.NOT_FOUND,
}


def _refused(refusal: Refusal) -> web.Response:
    status = _REFUSALS.get(refusal.name, HTTPStatus.CONFLICT)
    return error(status, refusal.name, str(refusal))


def refuse_other_hosts(hosts: AllowedHosts) -> Middleware:
    """A middleware that refuses requests by names that are not the node's."""

    @web.middleware
    async def check(request: web.Request, handler: _Page) -> web.StreamResponse:
        host = request.headers.get("Host")
        if request.path in _BY_ANY_NAME or hosts.allow(host):
            return await handler(request)
        message = (
            f"{host!r} is not a name of this node. Ask by its IP address, or add the name to the"
            " setting http.allowed.hosts."
        )
        return error(HTTPStatus.FORBIDDEN, "unknown_host", message)

    return check


@web.middleware
async def refuse_encoded(request: web.Request, handler: _Page) -> web.StreamResponse:
    """A middleware that refuses compressed bodies: few bytes could become very many."""
    if request.headers.get("Content-Encoding", "identity") == "identity":
        return await handler(request)
    message = "The body must be sent as it is, without Content-Encoding."
    return error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)


@web.middleware
async def errors_as_json(request: web.Request, handler: _Page) -> web.StreamResponse:
    """Answer with JSON whatever goes wrong."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return _refused(refusal)
    except web.HTTPException as raised:
        # The request keeps one that says that there is no such page.
        return _raised(without_frames(raised), request)
    except ClientConnectionResetError:
        return web.Response()  # for nobody: the client has hung up
    except Exception:  # noqa: BLE001  # whatever it is, the client gets an answer
        _log.exception("HTTP request failed", path=request.path)
        message = "The request failed because of a fault in the node; its log has the details."
        return error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", message)


def _raised(raised: web.HTTPException, request: web.Request) -> web.Response:
    status = HTTPStatus(raised.status)
    if not isinstance(raised, web.HTTPMethodNotAllowed):
        name = status.name.lower()
        return error(status, name, f"{request.method} {request.path}: {status.phrase}.")
    allowed = ", ".join(sorted(raised.allowed_methods))
    message = f"{request.path} does not allow {request.method}, only {allowed}."
    answer = error(status, "method_not_allowed", message)
    answer.headers["Allow"] = allowed
    return answer
