"""What commands say when what listens at an address is no plain Kafka listener."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.node_http import NoAnswerError, ask
from coterie_protocol import ApiKey, encode_response
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import ApiVersion, ApiVersionsResponse, SaslHandshakeResponse

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


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x02ab", b"\0\0\0\x08" + b"\x07" * 8],
)
def test_garbage_is_told_in_one_sentence(garbage: bytes) -> None:
    with listener(garbage) as address:
        said = refused("--bootstrap", address)
    told = f"No connection to {address} (PLAINTEXT): what it answers is not Kafka's protocol ("
    assert said.startswith(told)
    assert (said.count(address), said.count("ApiVersions was"), said.count("..")) == (1, 0, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--ca-file nowhere.pem", "The TLS files (nowhere.pem) can't be used: No such file or"),
        ("--ca-file empty.pem", "The TLS files (empty.pem) can't be used: no certificate"),
        (
            "--bootstrap nowhere",
            "--bootstrap must be HOST:PORT, or several of that, got 'nowhere'.",
        ),
        (
            "--bootstrap http://a:1",
            "--bootstrap must be HOST:PORT, with no protocol before it, got",
        ),
    ],
)
def test_option_that_cannot_be_used_is_named(
    options: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    result = CliRunner().invoke(app, ["topics", "list", *options.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith(sentence)
    assert "Errno" not in result.stderr
    assert "_ssl" not in result.stderr


@contextmanager
def listener_that_hangs_up(mechanisms: tuple[str, ...]) -> Iterator[str]:
    """The address of a server that hangs up when it is asked anything but how to begin."""
    versions = tuple(ApiVersion(api_key=k, min_version=0, max_version=9) for k in (3, 17, 18))
    illegal = ErrorCode.UNSUPPORTED_SASL_MECHANISM if mechanisms else ErrorCode.ILLEGAL_SASL_STATE
    answers = {
        ApiKey.API_VERSIONS: (ApiVersionsResponse(api_keys=versions), 3),
        ApiKey.SASL_HANDSHAKE: (
            SaslHandshakeResponse(error_code=illegal, mechanisms=mechanisms),
            1,
        ),
    }

    def answer(connection: socket.socket) -> bool:
        while (asked := connection.recv(65_536)) != b"over":
            key, number = struct.unpack(">4xh2xi", asked[:12]) if asked else (0, 0)
            if key not in answers:
                return True
            response, version = answers[ApiKey(key)]
            connection.sendall(encode_response(response, version, number))
        return False

    def serve() -> None:
        goes_on = True
        while goes_on:
            connection, _ = listening.accept()
            with connection:
                goes_on = answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        with socket.create_connection(listening.getsockname()) as last:
            last.sendall(b"over")
        thread.join()


def test_listener_that_hangs_up_and_takes_logins_wants_to_know_who_it_is() -> None:
    with listener_that_hangs_up(("PLAIN", "SCRAM-SHA-256")) as address:
        said = refused("--bootstrap", address, "--timeout", "0.3")
    assert "the server closed it" in said
    assert said.endswith("It wants to know who you are: tell it with --user or --config-file.\n")


def test_listener_that_hangs_up_for_another_reason_is_not_said_to_want_a_login() -> None:
    """As one whose store is away; who connects is nothing to it."""
    with listener_that_hangs_up(()) as address:
        said = refused("--bootstrap", address, "--timeout", "0.3")
    assert said.endswith("the server closed it. Try again.\n")


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
