"""Asks a node over HTTP, and takes nothing for a node's answer that is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from coterie_cli.daemon_threads import DaemonThreads

if TYPE_CHECKING:
    import ssl

__all__ = [
    "Access",
    "NoAnswerError",
    "RefusedError",
    "ask",
    "is_https",
    "list_groups",
    "path_of_group",
]

_HTTPS: Final = "https://"

#: What is in each line of a list of groups, and in the page of one: by this a node is known.
_OF_ROW: Final = frozenset({"group", "state", "type", "protocol", "generation", "members"})
_OF_GROUP: Final[Mapping[str, type]] = {"group": str, "state": str, "members": list}
_OF_HISTORY: Final[Mapping[str, type]] = {"rebalances": list, "history": dict}
_LINES: Final = "application/x-ndjson"


class NoAnswerError(Exception):
    """Nothing answered over HTTP; the message is a sentence."""


class RefusedError(Exception):
    """The node answered with an error."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        #: The error's name, which is for programs.
        self.name = name


@dataclass(frozen=True, slots=True)
class Access:
    """What a node is shown over HTTP."""

    token: str | None = field(default=None, repr=False)
    #: Whether there is a token that is not for this node.
    is_withheld: bool = False
    #: For an address that begins with https://.
    tls: ssl.SSLContext | None = None


_NO_ACCESS: Final = Access()


def is_https(address: str) -> bool:
    """Whether HTTP is to be spoken with TLS there."""
    return address.startswith(_HTTPS)


def _url(address: str) -> str:
    return address if is_https(address) else f"http://{address}"


def path_of_group(group: str, *rest: str) -> str:
    """The path of a group's page, or of one below it."""
    from urllib.parse import quote

    return "/".join(("/v1/groups", quote(group, safe=""), *rest))


def ask(  # any JSON
    address: str,
    path: str,
    *,
    timeout_s: float,
    post: bool = False,
    body: Mapping[str, Any] | None = None,
    access: Access = _NO_ACCESS,
) -> Any:  # noqa: ANN401  # any JSON
    """Return what a node tells of a group, or raise `NoAnswerError` or `RefusedError`.

    With a `body`, or with `post`, it is asked to do something.
    """
    import json

    sent = None if body is None else json.dumps(body).encode()
    post = post or sent is not None
    answer = _answer_of(address, path, timeout_s=timeout_s, post=post, sent=sent, access=access)
    needed = _OF_GROUP if post else {**_OF_GROUP, **_OF_HISTORY}
    try:
        found = json.loads(answer)
        if all(isinstance(found[key], kind) for key, kind in needed.items()):
            return found
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def list_groups(
    address: str, timeout_s: float, states: Iterable[str] = (), access: Access = _NO_ACCESS
) -> list[dict[str, Any]]:
    """A node's groups as the HTTP pages show them, in any order; raises as `ask` does."""
    import json
    from urllib.parse import urlencode

    query = urlencode([("format", "jsonl"), *(("state", state) for state in states)])
    path = f"/v1/groups?{query}"
    body = _answer_of(address, path, timeout_s=timeout_s, has_lines=True, access=access)
    try:
        # One document is read faster than many.
        found = json.loads(b"[%s]" % b",".join(body.splitlines()))
        if all(row.keys() >= _OF_ROW for row in found):
            return cast("list[dict[str, Any]]", found)
    except (ValueError, AttributeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def _answer_of(
    address: str,
    path: str,
    *,
    timeout_s: float,
    post: bool = False,
    has_lines: bool = False,
    sent: bytes | None = None,
    access: Access,
) -> bytes:
    """The body of an answer, which has JSON, or lines of it."""
    import http.client

    # A socket's timeout bounds each wait, of which a server that answers in drops has many, and
    # finding out where a host is has none.
    method = "POST" if post else "GET"
    asked = DaemonThreads().submit(_exchange, address, method, path, timeout_s, access, sent)
    try:
        status, kind, body = asked.result(timeout_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswerError(_why_silent(address, timeout_s, error)) from None
    if status == http.client.OK and (kind == _LINES) == has_lines:
        return body
    if status == http.client.UNAUTHORIZED:
        raise _unauthorized(address, access)
    raise _refusal(body) or NoAnswerError(_not_coterie(address))


def _unauthorized(address: str, access: Access) -> RefusedError:
    """What to do about it, which the node can't know."""
    if access.is_withheld:
        return RefusedError(
            "unauthorized",
            f"{_url(address)} wants a token, and did not get it, as it has no TLS: name the address"
            " with --http if the token may go there.",
        )
    return RefusedError(
        "unauthorized",
        f"{_url(address)} wants {'another' if access.token else 'a'} token: put it into"
        " COTERIE_HTTP_TOKEN, or name a file with --http-token-file.",
    )


def _exchange(
    address: str,
    method: str,
    path: str,
    timeout_s: float,
    access: Access,
    sent: bytes | None,
) -> tuple[int, str, bytes]:
    import http.client

    opened: http.client.HTTPConnection
    if is_https(address):
        host = address.removeprefix(_HTTPS)
        opened = http.client.HTTPSConnection(host, timeout=timeout_s, context=access.tls)
    else:
        opened = http.client.HTTPConnection(address, timeout=timeout_s)
    headers = {} if access.token is None else {"Authorization": f"Bearer {access.token}"}
    if sent is not None:
        headers["Content-Type"] = "application/json"
    with closing(opened) as connection:
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        return response.status, response.headers.get_content_type(), response.read()


def _why_silent(address: str, timeout_s: float, error: Exception) -> str:
    import http.client

    match error:
        case TimeoutError():
            return f"No answer from {_url(address)} within {timeout_s:g} s."
        case http.client.RemoteDisconnected():
            return f"{address} closed the connection without an answer: it may not speak HTTP."
        case http.client.IncompleteRead():
            return f"The answer of {_url(address)} broke off."
        case OSError():
            reason = _why_no_tls(error) or error.strerror or str(error)
            reason = reason or "the connection was closed"
            return f"No answer from {_url(address)}: {reason}."
        case http.client.InvalidURL():
            return f"{address} is no address; expected HOST:PORT."
        case _:
            return f"{address} does not answer HTTP."


def _why_no_tls(error: OSError) -> str | None:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS could be agreed on ({(error.reason or 'unknown').lower()})"
    return None


def _refusal(body: bytes) -> RefusedError | None:
    """The error that a node tells in a body; None if no node wrote it."""
    import json

    try:
        problem = json.loads(body)
        name, sentence = problem["error"], problem["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_nodes = isinstance(name, str) and isinstance(sentence, str)
    return RefusedError(name, sentence) if is_nodes else None


def _not_coterie(address: str) -> str:
    return f"{_url(address)} answers, but is no node of Coterie."
