"""The users of scenarios with ACLs, and how they log in with both brokers."""

from __future__ import annotations

from typing import Final

from coterie_protocol import messages as m
from tests.interop.differential.wire import Connection

__all__ = ["LISTENER", "SECURITY", "USERS", "log_in"]

#: `admin` may do everything.  `wild` has ACLs about all resources, so that no other is disturbed.
USERS: Final = ("admin", "ann", "bob", "cleo", "wild")
#: The listener on which they log in.
LISTENER: Final = "SASL"

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _password(user: str) -> str:
    return f"{user}-secret"


_LOGINS: Final = " ".join(f'user_{user}="{_password(user)}"' for user in USERS)

#: What both brokers are told of them; those who come in without logging in are Kafka itself, and
#: the tests when they prepare a broker.
SECURITY: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    f"listener.name.{LISTENER.lower()}.sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{_MODULE} required {_LOGINS};",
}


async def log_in(connection: Connection, user: str) -> None:
    """Log a client in."""
    handshake = await connection.send(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert handshake.error_code == 0, handshake
    proof = f"\0{user}\0{_password(user)}".encode()
    answer = await connection.send(m.SaslAuthenticateRequest(auth_bytes=proof), 2)
    assert answer.error_code == 0, answer
