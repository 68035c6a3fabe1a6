"""Asks a node over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie_cli.daemon_threads import DaemonThreads

__all__ = ["NoAnswerError", "RefusedError", "ask", "list_groups", "path_of_group"]


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
    """Return what a node answers, or raise `NoAnswerError` or `RefusedError`."""
    return _decoded(address, _answer_of(address, path, timeout_s=timeout_s, post=post))


def _answer_of(address: str, path: str, *, timeout_s: float, post: bool = False) -> bytes:
    import http.client
    import json

    method = "POST" if post else "GET"
    # A socket's timeout bounds each wait, of which a server that answers in drops has many, and
    # finding out where a host is has none.
    asked = DaemonThreads().submit(_exchange, address, method, path, timeout_s)
    try:
        status, reason, body = asked.result(timeout_s)
    except TimeoutError:
        raise NoAnswerError(f"No answer from http://{address} within {timeout_s:g} s.") from None
    except OSError as error:
        why = error.strerror or str(error) or "the connection was closed"
        raise NoAnswerError(f"No answer from http://{address}: {why}.") from None
    except (http.client.HTTPException, ValueError) as error:
        if isinstance(error, http.client.InvalidURL):
            raise NoAnswerError(f"{address} is no address; expected HOST:PORT.") from None
        raise NoAnswerError(f"{address} does not answer HTTP.") from None
    if status < http.client.BAD_REQUEST:
        return body
    try:
        problem = json.loads(body)
        raise RefusedError(str(problem["error"]), str(problem["message"]))
    except (ValueError, KeyError, TypeError):
        raise RefusedError("", f"http://{address}{path} answers {status} {reason}.") from None


def _exchange(address: str, method: str, path: str, timeout_s: float) -> tuple[int, str, bytes]:
    import http.client

    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.reason, response.read()
    finally:
        connection.close()


def list_groups(address: str, timeout_s: float, states: Iterable[str] = ()) -> list[dict[str, Any]]:
    """A node's groups as the HTTP pages show them, by name; raises as `ask` does."""
    import json
    from urllib.parse import urlencode

    query = urlencode([("format", "jsonl"), *(("state", state) for state in states)])
    body = _answer_of(address, f"/v1/groups?{query}", timeout_s=timeout_s)
    try:
        # One document is read faster than many.
        found = json.loads(b"[%s]" % b",".join(body.splitlines()))
        return sorted(found, key=lambda group: str(group["group"]))
    except (ValueError, KeyError, TypeError):
        raise NoAnswerError(_not_coterie(address)) from None


def _not_coterie(address: str) -> str:
    return f"http://{address} answers, but is no node of Coterie."


def _decoded(address: str, body: bytes) -> Any:  # noqa: ANN401  # any JSON
    import json

    try:
        return json.loads(body)
    except ValueError:
        raise NoAnswerError(_not_coterie(address)) from None
