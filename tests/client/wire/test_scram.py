"""SCRAM against the exchanges that its RFCs print, and against servers that cheat."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pytest

from coterie_client.errors import ServerNotProvenError
from coterie_client.wire.sasl import ITERATIONS_MAX, ITERATIONS_MIN, ScramClient
from coterie_protocol.errors import SaslAuthenticationFailedError


@dataclass(frozen=True)
class Exchange:
    """A conversation as an RFC prints it; user and password are the same in all."""

    digest: str
    nonce: str
    client_first: str
    server_first: str
    client_final: str
    server_final: str

    def client(self) -> ScramClient:
        """A client at the beginning of it."""
        return ScramClient(self.digest, "user", "pencil", self.nonce)


RFC_5802 = Exchange(
    "sha1",
    "fyko+d2lbbFgONRv9qkxdawL",
    "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = Exchange(
    "sha256",
    "rOprNGfwEbeRWgbNEkqO",
    "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("exchange", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_conversation_is_that_of_the_rfc(exchange: Exchange) -> None:
    client = exchange.client()
    assert client.first().decode() == exchange.client_first
    assert client.final(exchange.server_first.encode()).decode() == exchange.client_final
    client.verify(exchange.server_final.encode())


def test_separators_in_the_user_name_are_escaped() -> None:
    assert ScramClient("sha256", "a=b,c", "p", "nonce").first() == b"n,,n=a=3Db=2Cc,r=nonce"


def test_non_ascii_name_and_password_are_sent_as_plain_utf_8() -> None:
    one = ScramClient("sha256", "ﬁ", "ﬁ", RFC_7677.nonce)
    other = ScramClient("sha256", "ﬁ", "fi", RFC_7677.nonce)
    assert one.first().decode() == f"n,,n=ﬁ,r={RFC_7677.nonce}"
    server_first = RFC_7677.server_first.encode()
    assert one.final(server_first) != other.final(server_first)


@pytest.mark.parametrize(
    "signature",
    [base64.b64encode(bytes(32)).decode(), "", "no base64!"],
    ids=["wrong", "empty", "garbage"],
)
def test_server_with_a_wrong_signature_is_refused(signature: str) -> None:
    client = RFC_7677.client()
    client.first()
    client.final(RFC_7677.server_first.encode())
    with pytest.raises(ServerNotProvenError):
        client.verify(f"v={signature}".encode())


def test_empty_signature_before_the_proof_is_refused() -> None:
    client = RFC_7677.client()
    client.first()
    with pytest.raises(ServerNotProvenError):
        client.verify(b"v=")


@pytest.mark.parametrize(
    "server_first",
    [
        b"",
        b"\xff\xfe",
        b"r=other-nonce,s=QSXCR+Q6sek8bf92,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=QSXCR+Q6sek8bf92,i=4096",  # nothing of the server's own
        b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=***,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=QSXCR+Q6sek8bf92",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=QSXCR+Q6sek8bf92,i=many",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=QSXCR+Q6sek8bf92,i=-4096",
        b"m=must,r=rOprNGfwEbeRWgbNEkqOx,s=QSXCR+Q6sek8bf92,i=4096",
    ],
)
def test_malformed_challenge_is_refused(server_first: bytes) -> None:
    client = RFC_7677.client()
    client.first()
    with pytest.raises(ServerNotProvenError):
        client.final(server_first)


@pytest.mark.parametrize("iterations", [1, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1, 10**9])
def test_iterations_out_of_bounds_are_refused(iterations: int) -> None:
    """Too few would be cheap to break, too many would stop the event loop."""
    client = RFC_7677.client()
    client.first()
    challenge = f"r={RFC_7677.nonce}x,s=QSXCR+Q6sek8bf92,i={iterations}"
    with pytest.raises(ServerNotProvenError, match=r"iterations|malformed"):
        client.final(challenge.encode())


def test_refusal_during_the_exchange_is_raised() -> None:
    client = RFC_7677.client()
    client.first()
    client.final(RFC_7677.server_first.encode())
    with pytest.raises(SaslAuthenticationFailedError, match="invalid-proof"):
        client.verify(b"e=invalid-proof")
