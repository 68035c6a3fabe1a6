"""Asking a node over HTTP where something else answers, or nothing does in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.node_http import NoAnswerError, RefusedError, ask, list_groups

GROUP: Final = b'{"group":"g","state":"Empty","members":[],"rebalances":[],"history":{}}'
ROW: Final = (
    b'{"group":"g","state":"Empty","type":null,"protocol":null,"generation":0,"members":0}\n'
)


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """An answer over HTTP."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def listener(*pieces: bytes, every_s: float = 0, stays: bool = False) -> Iterator[str]:
    """The address of a server that answers one client with these pieces."""
    over = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            for piece in pieces:
                connection.sendall(piece)
                over.wait(every_s)
            if stays:
                over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        thread.join()


def silence_of(*pieces: bytes, lists: bool, **how: float) -> str:
    """What is said of a server that is no node; its address is A."""
    with listener(*pieces, **how) as address:  # type: ignore[arg-type]
        with pytest.raises(NoAnswerError) as caught:
            list_groups(address, 0.5) if lists else ask(address, "/v1/groups/g", timeout_s=0.5)
        return str(caught.value).replace(address, "A")


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(
    "foreign",
    [
        answer(b"<html>hello</html>", kind="text/html"),
        answer(b""),
        answer(b"null"),
        answer(b"{}"),
        answer(b"[" * 100_000),
        answer(b"\xff\xfe\x00"),
        answer(b'{"group":"g","rebalances":3}'),
        answer(b"", "302 Found"),
        answer(b"boom", "500 Oops"),
        answer(b'{"error":5,"message":[]}', "400 Bad Request"),
        answer(b"{}\n", kind="application/x-ndjson"),
        answer(b'{"group":3}\n', kind="application/x-ndjson"),
        answer(b"5\n", kind="application/x-ndjson"),
    ],
)
def test_another_server_is_not_taken_for_a_node(foreign: bytes, *, lists: bool) -> None:
    assert silence_of(foreign, lists=lists) == "http://A answers, but is no node of Coterie."


def test_node_is_heard() -> None:
    with listener(answer(GROUP)) as address:
        assert ask(address, "/v1/groups/g", timeout_s=60)["group"] == "g"
    with listener(answer(ROW, kind="application/x-ndjson")) as address:
        assert [row["group"] for row in list_groups(address, 60)] == ["g"]
    refusal = answer(b'{"error":"not_ready","message":"It stops."}', "503 Service Unavailable")
    with listener(refusal) as address, pytest.raises(RefusedError, match="It stops") as caught:
        ask(address, "/v1/groups/g", timeout_s=60)
    assert caught.value.name == "not_ready"


@pytest.mark.parametrize("lists", [True, False])
def test_server_that_hangs_is_not_waited_for(*, lists: bool) -> None:
    said = silence_of(lists=lists, stays=True)
    assert said == "No answer from http://A within 0.5 s."


@pytest.mark.parametrize("lists", [True, False])
def test_server_that_drips_is_not_waited_for(*, lists: bool) -> None:
    said = silence_of(b"HTTP/1.1 200 OK\r\n", *[b"x"] * 100, lists=lists, every_s=0.1)
    assert said == "No answer from http://A within 0.5 s."


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ((), "A closed the connection without an answer: it may not speak HTTP."),
        ((b"SSH-2.0-OpenSSH\r\n",), "A does not answer HTTP."),
        ((answer(GROUP)[:-9],), "The answer of http://A broke off."),
    ],
)
def test_end_without_an_answer_is_told(pieces: tuple[bytes, ...], said: str) -> None:
    assert silence_of(*pieces, lists=False) == said


def test_group_without_a_name_is_not_asked_for() -> None:
    result = CliRunner().invoke(app, ["groups", "why", "", "--http", "127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "A group without a name has no members, and no page over HTTP.\n"


def test_way_to_the_address_is_told_only_where_none_was_given() -> None:
    result = CliRunner().invoke(app, ["groups", "why", "g", "--http", "127.0.0.1:1"])
    assert result.exit_code == 3
    assert result.stderr == "No answer from http://127.0.0.1:1: Connection refused.\n"
