"""How nodes prove to each other that they share a store."""

from __future__ import annotations

import pytest

from coterie_server.security import Principal
from coterie_server.security.sasl import (
    Accepted,
    LoginRefusedError,
    NodeNotProvenError,
    NodeProof,
    certificate_binding,
    node_conversation,
)

SECRET = bytes(range(32))
OURS, OTHER = certificate_binding(b"our certificate"), certificate_binding(b"another")


def prove(
    asker: NodeProof, secret: bytes = SECRET, bindings: frozenset[bytes] = frozenset()
) -> Accepted:
    asked = node_conversation(secret, "other-nonce", bindings)
    challenge = asked.respond(asker.first())
    accepted = asked.respond(asker.final(challenge.token))
    assert isinstance(accepted, Accepted)
    asker.verify(accepted.token)
    return accepted


def test_node_with_the_secret_is_a_node() -> None:
    assert prove(NodeProof(SECRET, 7, "nonce")).principal == Principal("Node", "7")


def test_another_secret_is_refused() -> None:
    with pytest.raises(LoginRefusedError, match="wrong password"):
        prove(NodeProof(bytes(32), 7, "nonce"))


def test_one_who_asks_learns_that_the_other_side_has_another_secret() -> None:
    asker = NodeProof(SECRET, 7, "nonce")
    asker.final(b"r=nonceOther,s=AAAA,i=4096")
    for answer in (b"v=", b"", b"v=" + b"A" * 44):
        with pytest.raises(NodeNotProvenError):
            asker.verify(answer)


def test_answer_before_the_proof_is_refused() -> None:
    with pytest.raises(NodeNotProvenError):
        NodeProof(SECRET, 7, "nonce").verify(b"")


@pytest.mark.parametrize("challenge", [b"", b"\xff", b"r=nonce,s=AA", b"r=other,s=A", b"r=nonceX"])
def test_malformed_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(NodeNotProvenError):
        NodeProof(SECRET, 7, "nonce").final(challenge)


@pytest.mark.parametrize("name", ["ann", "node-", "node-x", "node-01", "node-1 ", "Node-1"])
def test_names_that_are_no_nodes_are_refused(name: str) -> None:
    asker = NodeProof(SECRET, 7, "nonce")
    asker._bare = f"n={name},r=nonce"  # noqa: SLF001  # no method makes such a name
    with pytest.raises(LoginRefusedError, match="unknown user"):
        prove(asker)


def test_proof_is_bound_to_the_certificate() -> None:
    both = frozenset({OTHER, OURS})  # a new certificate is read while the old is still shown
    assert prove(NodeProof(SECRET, 7, "nonce", OURS), bindings=both).principal.is_node


def test_proof_that_was_made_for_another_certificate_is_refused() -> None:
    with pytest.raises(LoginRefusedError, match="channel binding differs"):
        prove(NodeProof(SECRET, 7, "nonce", OTHER), bindings=frozenset({OURS}))


def test_proof_without_a_binding_is_refused_over_tls() -> None:
    with pytest.raises(LoginRefusedError, match="no channel binding"):
        prove(NodeProof(SECRET, 7, "nonce"), bindings=frozenset({OURS}))


def test_proof_with_a_binding_is_refused_without_tls() -> None:
    with pytest.raises(LoginRefusedError, match="channel binding"):
        prove(NodeProof(SECRET, 7, "nonce", OURS))
