"""Asks a node over HTTP, and takes nothing for a node's answer that is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import socket

__all__ = ["NoAnswerError", "RefusedError", "ask", "list_groups", "path_of_group"]

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


def path_of_group(group: str, *rest: str) -> str:
    """The path of a group's page, or of one below it."""
    from urllib.parse import quote

    return "/".join(("/v1/groups", quote(group, safe=""), *rest))


def ask(address: str, path: str, *, timeout_s: float, post: bool = False) -> Any:  # noqa: ANN401  # any JSON
    """Return what a node tells of a group, or raise `NoAnswerError` or `RefusedError`."""
    import json

    body = _answer_of(address, path, timeout_s=timeout_s, post=post)
    needed = _OF_GROUP if post else {**_OF_GROUP, **_OF_HISTORY}
    try:
        found = json.loads(body)
        if all(isinstance(found[key], kind) for key, kind in needed.items()):
            return found
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def list_groups(address: str, timeout_s: float, states: Iterable[str] = ()) -> list[dict[str, Any]]:
    """A node's groups as the HTTP pages show them, by name; raises as `ask` does."""
    import json
    from urllib.parse import urlencode

    query = urlencode([("format", "jsonl"), *(("state", state) for state in states)])
    body = _answer_of(address, f"/v1/groups?{query}", timeout_s=timeout_s, is_long=True)
    try:
        # One document is read faster than many.
        found = json.loads(b"[%s]" % b",".join(body.splitlines()))
        if all(row.keys() >= _OF_ROW for row in found):
            return sorted(found, key=lambda group: str(group["group"]))
    except (ValueError, AttributeError, RecursionError):
        pass
    raise NoAnswerError(_not_coterie(address))


def _answer_of(
    address: str, path: str, *, timeout_s: float, post: bool = False, is_long: bool = False
) -> bytes:
    """The body of an answer.

    All of it has to come in time, unless `is_long`: then its beginning has to, and each piece.
    """
    import http.client

    try:
        connection = http.client.HTTPConnection(address, timeout=timeout_s)
        with closing(connection):
            connection.connect()
            with _Deadline(connection.sock, timeout_s) as deadline:
                connection.request("POST" if post else "GET", path)
                response = connection.getresponse()
                if is_long:
                    deadline.lift()
                body = response.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswerError(_why_silent(address, timeout_s, error)) from None
    is_lines = response.headers.get_content_type() == _LINES
    if response.status == http.client.OK and is_lines == is_long:
        return body
    raise _refusal(body) or NoAnswerError(_not_coterie(address))


class _Deadline:
    """Ends a connection when its time is up; a socket's own timeout begins anew with every byte."""

    def __init__(self, opened: socket.socket, seconds: float) -> None:
        from threading import Timer

        self._socket = opened
        self._has_passed = False
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.lift()
        if self._has_passed:
            raise TimeoutError

    def lift(self) -> None:
        """Let the connection go on for as long as it takes."""
        self._timer.cancel()

    def _end(self) -> None:
        import socket

        self._has_passed = True
        with suppress(OSError):  # it may have ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)


def _why_silent(address: str, timeout_s: float, error: Exception) -> str:
    import http.client

    match error:
        case TimeoutError():
            return f"No answer from http://{address} within {timeout_s:g} s."
        case http.client.RemoteDisconnected():
            return f"{address} closed the connection without an answer: it may not speak HTTP."
        case http.client.IncompleteRead():
            return f"The answer of http://{address} broke off."
        case OSError():
            reason = error.strerror or str(error) or "the connection was closed"
            return f"No answer from http://{address}: {reason}."
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
    return f"http://{address} answers, but is no node of Coterie."
