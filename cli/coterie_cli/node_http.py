"""Asks a node over HTTP."""

from __future__ import annotations

from typing import Any

__all__ = ["NoAnswerError", "RefusedError", "ask", "groups_over_http", "path_of_group"]


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
    import http.client
    import json

    try:
        connection = http.client.HTTPConnection(address, timeout=timeout_s)
        try:
            connection.request("POST" if post else "GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
    except TimeoutError:
        raise NoAnswerError(f"No answer from http://{address} within {timeout_s:g} s.") from None
    except OSError as error:
        reason = error.strerror or str(error) or "the connection was closed"
        raise NoAnswerError(f"No answer from http://{address}: {reason}.") from None
    except (http.client.HTTPException, ValueError) as error:
        if isinstance(error, http.client.InvalidURL):
            raise NoAnswerError(f"{address} is no address; expected HOST:PORT.") from None
        raise NoAnswerError(f"{address} does not answer HTTP.") from None
    if response.status < http.client.BAD_REQUEST:
        return _decoded(address, body)
    try:
        problem = json.loads(body)
        raise RefusedError(str(problem["error"]), str(problem["message"]))
    except (ValueError, KeyError, TypeError):
        sentence = f"http://{address}{path} answers {response.status} {response.reason}."
        raise RefusedError("", sentence) from None


def groups_over_http(address: str, timeout_s: float) -> list[str]:
    """The names of a node's groups; none if it does not tell."""
    from urllib.parse import quote

    names: list[str] = []
    after: str | None = ""
    try:
        while after is not None:
            path = f"/v1/groups?limit=10000&after={quote(after, safe='')}"
            page = ask(address, path, timeout_s=timeout_s)
            names += [group["group"] for group in page["groups"]]
            after = page["next"]
    except (NoAnswerError, RefusedError):
        return []
    return names


def _decoded(address: str, body: bytes) -> Any:  # noqa: ANN401  # any JSON
    import json

    try:
        return json.loads(body)
    except ValueError:
        raise NoAnswerError(f"http://{address} answers, but is no node of Coterie.") from None
