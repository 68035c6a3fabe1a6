"""Users by Kafka's requests: their passwords are set and deleted, and never told."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import pytest

from coterie_protocol import encode_response
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security import ScramCredential, ScramMechanism
from coterie_server.security.records import CredentialRecord
from coterie_server.topics.work import CHANGES_AT_ONCE
from tests.server.topics.harness import CatalogueHarness

SALT: Final = b"salt" * 4
SALTED: Final = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)


def upsertion(name: str = "ann", **fields: Any) -> m.ScramCredentialUpsertion:
    """A password to be set."""
    usual: dict[str, Any] = {
        "name": name,
        "mechanism": ScramMechanism.SCRAM_SHA_256,
        "iterations": 4096,
        "salt": SALT,
        "salted_password": SALTED,
    }
    return m.ScramCredentialUpsertion(**usual | fields)


def deletion(name: str = "ann", mechanism: int = 1) -> m.ScramCredentialDeletion:
    """A password to be deleted."""
    return m.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    harness: CatalogueHarness,
    *upsertions: m.ScramCredentialUpsertion,
    deletions: tuple[m.ScramCredentialDeletion, ...] = (),
) -> dict[str, tuple[int, str | None]]:
    """Ask for changes; answer what became of each user."""
    request = m.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    results = harness.ask(request).results
    return {each.user: (each.error_code, each.error_message) for each in results}


def describe(harness: CatalogueHarness, *users: str) -> dict[str, Any]:
    """What is told of users, of all if none is named."""
    asked = tuple(m.UserName(name=user) for user in users) if users else None
    results = harness.ask(m.DescribeUserScramCredentialsRequest(users=asked)).results
    return {
        each.user: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in results
    }


def test_a_password_that_was_set_is_there_after_a_restart() -> None:
    harness = CatalogueHarness()
    assert alter(harness, upsertion(), upsertion("bob", mechanism=2, iterations=8192)) == {
        "ann": (0, None),
        "bob": (0, None),
    }
    harness.restart()
    assert describe(harness) == {"ann": [(1, 4096)], "bob": [(2, 8192)]}
    kept = harness.catalogue.rights.credentials["ann"][ScramMechanism.SCRAM_SHA_256]
    assert (kept.salt, kept.iterations) == (SALT, 4096)


def test_what_was_salted_is_not_kept() -> None:
    """It is as good as the password for whoever reads it."""
    harness = CatalogueHarness()
    alter(harness, upsertion())
    (stored,) = harness.stored.values()
    assert SALTED not in stored
    (record,) = harness.answer.records
    assert isinstance(record, CredentialRecord)
    assert "salt" not in repr(record).replace("salt=", "")


def test_a_user_may_have_one_password_for_each_mechanism() -> None:
    harness = CatalogueHarness()
    alter(harness, upsertion())
    alter(harness, upsertion(mechanism=2))
    assert describe(harness, "ann") == {"ann": [(1, 4096), (2, 4096)]}
    assert alter(harness, deletions=(deletion(),)) == {"ann": (0, None)}
    assert describe(harness, "ann") == {"ann": [(2, 4096)]}
    alter(harness, deletions=(deletion(mechanism=2),))
    assert describe(harness) == {}
    assert harness.stored == {}


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"name": ""}, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ({"iterations": 4095}, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ({"iterations": 16385}, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ({"mechanism": 3}, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    ],
)
def test_a_credential_that_makes_no_sense_is_refused(
    fields: dict[str, Any], error: ErrorCode, text: str
) -> None:
    harness = CatalogueHarness()
    asked = upsertion(**fields)
    assert alter(harness, asked) == {asked.name: (error, text)}
    assert harness.stored == {}


def test_a_user_is_changed_once_in_a_request() -> None:
    harness = CatalogueHarness()
    alter(harness, upsertion())
    twice = alter(harness, upsertion(), upsertion("bob"), deletions=(deletion(),))
    assert twice["ann"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert twice["bob"] == (0, None)
    assert describe(harness) == {"ann": [(1, 4096)], "bob": [(1, 4096)]}


def test_a_password_that_is_not_there_can_not_be_deleted() -> None:
    harness = CatalogueHarness()
    alter(harness, upsertion())
    assert alter(harness, deletions=(deletion(mechanism=2),)) == {
        "ann": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        )
    }


def test_unknown_users_and_those_named_twice_are_told_as_such() -> None:
    harness = CatalogueHarness()
    alter(harness, upsertion())
    assert describe(harness, "ann", "bob", "cat", "cat") == {
        "ann": [(1, 4096)],
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "cat": ErrorCode.DUPLICATE_RESOURCE,
    }


def test_very_many_passwords_are_set_and_deleted_in_small_steps() -> None:
    harness = CatalogueHarness()
    names = [f"u{number}" for number in range(10 * CHANGES_AT_ONCE)]
    alter(harness, *(upsertion(name) for name in names))
    assert harness.steps > 10
    assert len(harness.stored) == len(names)
    gone = alter(harness, deletions=tuple(map(deletion, names)))
    assert gone == dict.fromkeys(names, (0, None))
    assert harness.steps > 10
    assert harness.stored == {}


def test_there_is_an_end_to_users() -> None:
    harness = CatalogueHarness(max_users=1)
    found = alter(harness, upsertion(), upsertion("bob"))
    assert (found["ann"][0], found["bob"][0]) == (0, ErrorCode.POLICY_VIOLATION)
    assert alter(harness, upsertion(iterations=8192)) == {"ann": (0, None)}


def test_first_users_do_not_get_their_first_passwords_back() -> None:
    harness = CatalogueHarness()
    first = {
        (user, mechanism): ScramCredential(b"s", b"k", b"v", 4096)
        for user in ("ann", "root")
        for mechanism in ScramMechanism
    }
    alter(harness, upsertion(iterations=8192))
    outcome = harness.catalogue.ensure_users(first, 0)
    assert describe(harness) == {"ann": [(1, 8192)], "root": [(1, 4096), (2, 4096)]}
    assert sum(isinstance(each, CredentialRecord) for each in outcome.records) == 2
    assert not harness.catalogue.ensure_users(first, 0).records


def test_a_first_user_who_was_removed_stays_away() -> None:
    harness = CatalogueHarness()
    mechanism = ScramMechanism.SCRAM_SHA_256
    first = {(user, mechanism): ScramCredential(b"s", b"k", b"v", 4096) for user in ("ann", "root")}
    alter(harness, upsertion())
    harness.ensure_users(first)
    assert harness.catalogue.removed(first) == []
    assert alter(harness, deletions=(deletion("ann"),)) == {"ann": (0, None)}
    harness.restart()
    harness.ensure_users(first)
    assert describe(harness) == {"root": [(1, 4096)]}
    assert harness.catalogue.removed(first) == ["ann"]
    assert alter(harness, upsertion()) == {"ann": (0, None)}
    assert harness.catalogue.removed(first) == []


@pytest.mark.parametrize("times", [1, 2])
def test_any_name_that_can_be_asked_for_can_be_refused(times: int) -> None:
    """The answer repeats it, and has to fit all the same."""
    request = m.DescribeUserScramCredentialsRequest(users=(m.UserName(name="ä" * 16_383),) * times)
    answer = CatalogueHarness().ask(request)
    assert answer.results[0].error_code
    encode_response(answer, 0, 7)
