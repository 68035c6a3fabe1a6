"""Asks a node over HTTP, and takes nothing for a node's answer that is none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from coterie_cli.daemon_threads import DaemonThreads
from coterie_cli.variables import Variable

if TYPE_CHECKING:
    from http.client import HTTPConnection

__all__ = ["NoAnswerError", "RefusedError", "ask", "list_groups", "path_of_group"]

#: What is in each line of a list of groups, and in the page of one: by this a node is known.
_OF_ROW: Final = frozenset({"group", "state", "type", "protocol", "generation", "members"})
_OF_GROUP: Final[Mapping[str, type]] = {"group": str, "state": str, "members": list}
_OF_HISTORY: Final[Mapping[str, type]] = {"rebalances": list, "history": dict}
_LINES: Final = "application/x-ndjson"
_HTTPS: Final = "https://"

_Exchange = Callable[[], tuple[int, str, bytes]]
"""Asks, and returns the status, the type of the content, and the content."""


class NoAnswerError(Exception):
    """Nothing answered over HTTP; the message is a sentence."""


class RefusedError(Exception):
    """The node answered with an error."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        #: The error's name, which is for programs.
        self.name = name


def path_of_group(group: str, *rest: str) -> str:
    """The path of a group's page, or of one below it."""
    from urllib.parse import quote

    return "/".join(("/v1/groups", quote(group, safe=""), *rest))


def ask(
    address: str,
    path: str,
    *,
    timeout_s: float,
    post: bool = False,
    ca_file: Path | None = None,
) -> Any:  # noqa: ANN401  # any JSON
    """Return what a node tells of a group, or raise `NoAnswerError` or `RefusedError`.

    An address that begins with `https://` is asked over TLS, trusting the authorities in `ca_file`
    or those of the system.
    """
    import json

    asked = partial(_exchange, address, "POST" if post else "GET", path, timeout_s, ca_file)
    body = _answer_of(address, asked, timeout_s)
    needed = _OF_GROUP if post else {**_OF_GROUP, **_OF_HISTORY}
    try:
        found = json.loads(body)
        if all(isinstance(found[key], kind) for key, kind in needed.items()):
            return found
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def list_groups(
    address: str, timeout_s: float, states: Iterable[str] = (), *, ca_file: Path | None = None
) -> list[dict[str, Any]]:
    """A node's groups as the HTTP pages show them, in any order; raises as `ask` does."""
    import json
    from urllib.parse import urlencode

    query = urlencode([("format", "jsonl"), *(("state", state) for state in states)])
    asked = partial(_exchange, address, "GET", f"/v1/groups?{query}", timeout_s, ca_file)
    body = _answer_of(address, asked, timeout_s, has_lines=True)
    try:
        # One document is read faster than many.
        found = json.loads(b"[%s]" % b",".join(body.splitlines()))
        if all(row.keys() >= _OF_ROW for row in found):
            return cast("list[dict[str, Any]]", found)
    except (ValueError, AttributeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def _answer_of(
    address: str, exchange: _Exchange, timeout_s: float, *, has_lines: bool = False
) -> bytes:
    """The body of an answer, which has JSON, or lines of it."""
    import http.client

    # A socket's timeout bounds each wait, of which a server that answers in drops has many, and
    # finding out where a host is has none.
    asked = DaemonThreads().submit(exchange)
    try:
        status, kind, body = asked.result(timeout_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswerError(_why_silent(address, timeout_s, error)) from None
    if status == http.client.OK and (kind == _LINES) == has_lines:
        return body
    raise _refusal(body) or NoAnswerError(_not_coterie(address))


def _exchange(
    address: str, method: str, path: str, timeout_s: float, ca_file: Path | None
) -> tuple[int, str, bytes]:
    token = os.environ.get(Variable.HTTP_TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with closing(_connection(address, timeout_s, ca_file)) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers.get_content_type(), response.read()


def _connection(address: str, timeout_s: float, ca_file: Path | None) -> HTTPConnection:
    import http.client

    if not address.startswith(_HTTPS):
        return http.client.HTTPConnection(address, timeout=timeout_s)
    import ssl

    context = ssl.create_default_context(cafile=ca_file)
    host = address.removeprefix(_HTTPS)
    return http.client.HTTPSConnection(host, timeout=timeout_s, context=context)


def _url(address: str) -> str:
    return address if address.startswith(_HTTPS) else f"http://{address}"


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
            reason = getattr(error, "verify_message", "") or error.strerror or str(error)
            return f"No answer from {_url(address)}: {reason or 'the connection was closed'}."
        case http.client.InvalidURL():
            return f"{address} is no address; expected HOST:PORT."
        case _:
            return f"{address} does not answer HTTP."


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
