"""Users to log in, and whole conversations with the client's own side."""

from __future__ import annotations

from coterie_client.wire.sasl import ScramClient
from coterie_server.security import ScramMechanism
from coterie_server.security.sasl import (
    Accepted,
    Challenge,
    Conversation,
    Credentials,
    Decoys,
    KnownUsers,
    ScramConversation,
    made_of_password,
)

__all__ = ["SHA_256", "SHA_512", "credentials", "log_in_by_scram"]

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def credentials(
    users: dict[str, str] | None = None,
    plain_users: dict[str, str] | None = None,
    mechanisms: tuple[ScramMechanism, ...] = (SHA_256, SHA_512),
) -> Credentials:
    """Users by name and password."""
    return Credentials(
        users=_known(users or {}, mechanisms),
        decoys=Decoys(b"key of the decoys"),
        plain_users=_known(plain_users or {}, mechanisms),
    )


def _known(passwords: dict[str, str], mechanisms: tuple[ScramMechanism, ...]) -> KnownUsers:
    return KnownUsers(
        {
            (name, mechanism): made_of_password(mechanism, password.encode(), b"salt", 4096)
            for name, password in passwords.items()
            for mechanism in mechanisms
        }
    )


def log_in_by_scram(
    found: Credentials, mechanism: ScramMechanism, name: str, password: str
) -> Accepted:
    """Play both sides; raises what the side raises that is not satisfied."""
    server: Conversation = ScramConversation(
        lambda claimed: found.for_scram(claimed, mechanism), "servernonce"
    )
    client = ScramClient(mechanism.digest, name, password, "clientnonce")
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    accepted = server.respond(client.final(challenge.token))
    assert isinstance(accepted, Accepted)
    client.verify(accepted.token)
    return accepted
