"""What commands say when what listens at an address is no plain Kafka listener."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.node_http import NoAnswerError, ask

TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"


@contextmanager
def listener(answer: bytes) -> Iterator[str]:
    """The address of a server that gives one client this answer, whatever it is asked."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def refused(*words: str) -> str:
    """The error of a command that reached no node."""
    result = CliRunner().invoke(app, ["topics", "list", *words])
    assert result.exit_code == 3, result.output
    return result.stderr


def test_listener_with_tls_is_answered_with_the_option_for_it() -> None:
    with listener(TLS_ALERT) as address:
        said = refused("--bootstrap", address)
        assert said == f"{address} speaks TLS, so use --tls.\n"


def test_listener_without_tls_is_answered_with_the_option_for_it() -> None:
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        said = refused("--bootstrap", address, "--tls")
        assert said.startswith(f"{address} answers without TLS, so leave out --tls, or")


def test_http_answer_in_drops_takes_no_longer_than_the_timeout() -> None:
    gone = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            while not gone.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match=r"within 0\.2 s\.$"):
            ask(address, "/v1/groups/billing", timeout_s=0.2)
        gone.set()
        thread.join()
