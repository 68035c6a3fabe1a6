"""The server's side of SCRAM, by the RFCs' examples and against the client's own side."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security import ITERATIONS_DEFAULT, Principal, ScramCredential, ScramMechanism
from coterie_server.security.sasl import (
    SALT_BYTES,
    Accepted,
    Challenge,
    Credentials,
    Decoys,
    Found,
    KnownUsers,
    LoginRefusedError,
    ScramConversation,
    made_of_password,
)
from tests.server.security.sasl.logins import SHA_256, SHA_512, credentials, log_in_by_scram

#: The example of RFC 7677.
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE, OTHER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={NONCE}"
CHALLENGE = f"r={NONCE}{OTHER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = f"c=biws,r={NONCE}{OTHER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

MECHANISMS = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
#: What a name may be made of: all that messages can carry.
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=40)
PASSWORDS = st.text(st.characters(codec="utf-8"), max_size=40)


def conversation(nonce: str = OTHER_NONCE) -> ScramConversation:
    credential = made_of_password(SHA_256, b"pencil", SALT, 4096)
    return ScramConversation(lambda _: Found(credential, SHA_256, is_real=True), nonce)


def test_conversation_is_that_of_the_rfc() -> None:
    server = conversation()
    assert server.respond(FIRST.encode()) == Challenge(CHALLENGE.encode())
    accepted = server.respond(FINAL.encode())
    assert accepted == Accepted(Principal("User", "user"), SIGNATURE.encode())


@MECHANISMS
@given(name=NAMES, password=PASSWORDS)
def test_client_logs_in_with_any_name_and_password(
    mechanism: ScramMechanism, name: str, password: str
) -> None:
    found = credentials({name: password})
    accepted = log_in_by_scram(found, mechanism, name, password)
    assert accepted.principal == Principal("User", name)


@MECHANISMS
@pytest.mark.parametrize("password", ["", "Pencil", "pencil ", "other"])
def test_wrong_password_is_refused(mechanism: ScramMechanism, password: str) -> None:
    with pytest.raises(LoginRefusedError, match="wrong password") as caught:
        log_in_by_scram(credentials({"ann": "pencil"}), mechanism, "ann", password)
    assert (caught.value.told, caught.value.user) == (None, "ann")


@MECHANISMS
def test_unknown_user_gets_a_challenge_and_is_refused_only_then(mechanism: ScramMechanism) -> None:
    with pytest.raises(LoginRefusedError, match="unknown user") as caught:
        log_in_by_scram(credentials({"ann": "pencil"}), mechanism, "bob", "pencil")
    assert caught.value.told is None


@MECHANISMS
def test_challenge_of_an_unknown_user_is_always_the_same(mechanism: ScramMechanism) -> None:
    one, other = Decoys(b"key"), Decoys(b"key")
    assert one.credential("bob", mechanism) == other.credential("bob", mechanism)
    salts = {one.credential(name, mechanism).salt for name in ("bob", "eve", "ann")}
    assert len(salts) == 3


@MECHANISMS
@pytest.mark.parametrize("salt", [b"x" * 24, bytes(24), b"1k2j3h4g5f6d7s8a9p0o", bytes(64)])
@pytest.mark.parametrize("iterations", [4096, 8192, 10_000])
def test_challenge_of_an_unknown_user_looks_like_those_of_users(
    mechanism: ScramMechanism, salt: bytes, iterations: int
) -> None:
    """Tools that set passwords differ in salts and iterations."""
    kept = made_of_password(mechanism, b"pencil", salt, iterations)
    users = KnownUsers({("ann", mechanism): kept})
    found = Credentials(users, Decoys(b"key"), KnownUsers())
    assert found.for_scram("ann", mechanism).credential == kept
    decoy = found.for_scram("bob", mechanism).credential
    assert (decoy.iterations, len(decoy.salt)) == (iterations, len(salt))
    assert decoy.salt.isalnum() == salt.isalnum()


@MECHANISMS
def test_unknown_users_look_like_users_of_each_tool(mechanism: ScramMechanism) -> None:
    decoys = Decoys(b"key")
    kept = {
        (f"ann-{each}", mechanism): made_of_password(mechanism, b"p", b"salt", each)
        for each in (4096, 8192)
    }
    decoys.learn(KnownUsers(kept))
    names = [f"user-{number}" for number in range(100)]
    first = [decoys.credential(name, mechanism) for name in names]
    assert {each.iterations for each in first} == {4096, 8192}
    assert [decoys.credential(name, mechanism) for name in names] == first


@MECHANISMS
def test_asking_for_a_user_changes_no_other_challenge(mechanism: ScramMechanism) -> None:
    kept = made_of_password(mechanism, b"pencil", b"x" * 9, 4096)
    found = Credentials(KnownUsers({("ann", mechanism): kept}), Decoys(b"key"), KnownUsers())
    before = found.for_scram("bob", mechanism)
    found.for_scram("ann", mechanism)
    assert found.for_scram("bob", mechanism) == before


@MECHANISMS
@pytest.mark.parametrize("by_settings", [False, True])
def test_password_of_an_unknown_user_takes_as_long_as_those_of_users(
    mechanism: ScramMechanism, *, by_settings: bool
) -> None:
    users = KnownUsers({("ann", mechanism): made_of_password(mechanism, b"p", b"salt", 5000)})
    where = (KnownUsers(), users) if by_settings else (users, KnownUsers())
    found = Credentials(where[0], Decoys(b"key"), where[1])
    for name in ("bob", "ann", "eve"):
        checked = found.for_plain(name)
        assert (checked.mechanism, checked.credential.iterations) == (mechanism, 5000)


@pytest.mark.parametrize(
    "find",
    [
        lambda found, name: found.for_scram(name, SHA_512),
        lambda found, name: found.for_scram(name, SHA_256),
        lambda found, name: found.for_plain(name),
    ],
)
def test_users_take_as_long_to_be_found_as_names_of_none(
    find: Callable[[Credentials, str], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = credentials({"ann": "secret"}, {"bob": "secret"})
    find(found, "whatever it takes to learn what users look like")
    hashed: list[str] = []
    digest = hmac.digest

    def counted(key: bytes, said: bytes, how: str) -> bytes:
        hashed.append(how)
        return digest(key, said, how)

    monkeypatch.setattr(hmac, "digest", counted)

    def hashed_for(name: str) -> list[str]:
        hashed.clear()
        find(found, name)
        return list(hashed)

    assert hashed_for("ann") == hashed_for("bob") == hashed_for("carl") != []


def test_first_challenge_looks_like_those_of_users_who_are_stored_here() -> None:
    decoy = Decoys(b"key").credential("bob", SHA_512)
    assert (decoy.iterations, len(decoy.salt)) == (ITERATIONS_DEFAULT, SALT_BYTES)


def test_user_of_the_other_mechanism_only_is_unknown_to_this_one() -> None:
    found = credentials({"ann": "pencil"}, mechanisms=(SHA_512,))
    with pytest.raises(LoginRefusedError, match="unknown user"):
        log_in_by_scram(found, SHA_256, "ann", "pencil")


def test_token_of_a_delegation_is_refused_even_if_its_name_is_a_users() -> None:
    server = conversation()
    first = FIRST + ",tokenauth=true"
    server.respond(first.encode())
    with pytest.raises(LoginRefusedError):
        server.respond(_final(first, "pencil"))


def test_extensions_are_passed_over() -> None:
    server = conversation()
    first = FIRST + ",x=y,other=1"
    server.respond(first.encode())
    assert isinstance(server.respond(_final(first, "pencil")), Accepted)


def test_client_may_ask_to_act_for_itself() -> None:
    server = conversation()
    first = f"n,a=user,n=user,r={NONCE}"
    server.respond(first.encode())
    assert isinstance(server.respond(_final(first, "pencil")), Accepted)


def test_client_may_not_ask_to_act_for_another() -> None:
    with pytest.raises(LoginRefusedError) as caught:
        conversation().respond(f"n,a=root,n=user,r={NONCE}".encode())
    assert "different from username" in str(caught.value.told)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff\xfe",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=,r=nonce",
        b"n,,n=a=b,r=nonce",
        b"n,,n=a\0b,r=nonce",
        "n,,n=user,r=nonc\u00e9".encode(),
        b"n,,m=ext,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"x,,n=user,r=nonce",
        b"n=user,r=nonce",
    ],
)
def test_malformed_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        conversation().respond(first)
    assert caught.value.told is None


@pytest.mark.parametrize(
    "final",
    [
        "",
        "c=biws",
        FINAL.replace("biws", "eSws"),  # another header than was sent
        FINAL.replace("biws", "n,,"),
        FINAL.replace("biws", ""),
        FINAL.replace(OTHER_NONCE, ""),
        FINAL.replace(NONCE, "x" + NONCE),
        FINAL.replace("p=dHzb", "p=eHzb"),
        FINAL.replace("p=dHzb", "p="),
        FINAL[: FINAL.index("p=") + 2],
        FINAL[: FINAL.index(",p=")],
        FINAL + "\n",
        FINAL.replace("VQ=", "VR="),  # the same bytes, written otherwise
    ],
)
def test_wrong_final_message_is_refused(final: str) -> None:
    server = conversation()
    server.respond(FIRST.encode())
    with pytest.raises(LoginRefusedError):
        server.respond(final.encode())


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_answered_or_refused(first: bytes, final: bytes) -> None:
    server = conversation()
    with pytest.raises(LoginRefusedError):
        [server.respond(message) for message in (first, final)]


@given(data=st.data())
def test_any_change_of_the_final_message_is_refused(data: st.DataObject) -> None:
    server = conversation()
    server.respond(FIRST.encode())
    changed = bytearray(FINAL.encode())
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != changed[at]))
    with pytest.raises(LoginRefusedError):
        server.respond(bytes(changed))


@MECHANISMS
@pytest.mark.parametrize("now", [{}, {"ann": "other"}])
def test_password_that_was_changed_meanwhile_is_not_confirmed(
    mechanism: ScramMechanism, now: dict[str, str]
) -> None:
    """A client may hold back its last message for as long as a login may take."""
    found = credentials({"ann": "pencil"})
    accepted = log_in_by_scram(found, mechanism, "ann", "pencil")
    accepted.confirm()
    found.users = credentials(now).users
    with pytest.raises(LoginRefusedError, match="meanwhile") as caught:
        accepted.confirm()
    assert (caught.value.told, caught.value.user) == (None, "ann")


def test_nothing_of_a_credential_shows() -> None:
    credential = made_of_password(SHA_256, b"pencil", SALT, 4096)
    shown = repr((Found(credential, SHA_256, is_real=True), Challenge(b"secret")))
    kept = (credential.salt, credential.stored_key, credential.server_key, b"secret")
    assert not any(repr(each)[2:-1] in shown for each in kept)


def _final(first: str, password: str) -> bytes:
    """The right final message to `OTHER_NONCE`, worked out without the product's code."""
    header, bare = first[: first.index("n=")], first[first.index("n=") :]
    if header.count(",") < 2:
        header, bare = first[: first.index("n=user")], first[first.index("n=user") :]
    channel = base64.b64encode(header.encode()).decode()
    unproved = f"c={channel},r={NONCE}{OTHER_NONCE}"
    said = f"{bare},{CHALLENGE},{unproved}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, 4096)
    credential = ScramCredential.of(SHA_256, salted, SALT, 4096)
    client_key = _hmac(salted, b"Client Key")
    signature = _hmac(credential.stored_key, said)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


def _hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA-256, by its definition."""
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()
