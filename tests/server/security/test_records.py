"""What is stored of rights, and that it can be read back."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security import ScramCredential, ScramMechanism
from coterie_server.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coterie_server.security.records import (
    AclRecord,
    CredentialRecord,
    FirstUserRecord,
    RightsRecord,
    from_stored,
    to_stored,
)
from coterie_server.topics import from_stored as row_from_stored

TEXTS: Final = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
ACLS: Final = st.builds(
    Acl,
    resource_type=st.sampled_from(ResourceType),
    name=TEXTS,
    pattern=st.sampled_from(PatternType),
    principal=TEXTS,
    host=TEXTS,
    operation=st.sampled_from(Operation),
    permission=st.sampled_from(Permission),
)
CREDENTIALS: Final = st.builds(
    CredentialRecord,
    user=TEXTS,
    mechanism=st.sampled_from(ScramMechanism),
    credential=st.builds(
        ScramCredential,
        salt=st.binary(max_size=40),
        stored_key=st.binary(max_size=64),
        server_key=st.binary(max_size=64),
        iterations=st.integers(4096, 16384),
    ),
)
READ: Final = Acl(
    ResourceType.GROUP,
    "g",
    PatternType.LITERAL,
    "User:a",
    "*",
    Operation.READ,
    Permission.ALLOW,
)


@given(st.one_of(st.builds(AclRecord, ACLS), CREDENTIALS, st.builds(FirstUserRecord, TEXTS)))
def test_a_stored_record_reads_back_as_it_was(record: RightsRecord) -> None:
    key, value = to_stored(record)
    assert value is not None
    assert from_stored(key, value) == record
    assert row_from_stored(key, value) == record


@given(ACLS)
def test_an_acl_that_is_gone_has_the_key_that_it_had(acl: Acl) -> None:
    assert to_stored(AclRecord(acl, is_there=False)) == (to_stored(AclRecord(acl))[0], None)


@given(CREDENTIALS)
def test_a_password_that_is_gone_has_the_key_that_it_had(record: CredentialRecord) -> None:
    gone = CredentialRecord(record.user, record.mechanism, None)
    assert to_stored(gone) == (to_stored(record)[0], None)


def test_stored_forms_are_pinned() -> None:
    """A change of them needs another version."""
    key, value = to_stored(AclRecord(READ))
    assert key == b"\x02" + bytes.fromhex("20478c9effabbcc9d3147a322af2602b")
    assert value == b"\x00\x03\x00\x01g\x03\x00\x06User:a\x00\x01*\x03\x03"
    credential = ScramCredential(b"s", b"k", b"v", 4096)
    assert to_stored(CredentialRecord("a", ScramMechanism.SCRAM_SHA_512, credential)) == (
        b"\x03\x02a",
        b"\x00\x00\x01a\x02\x00\x00\x00\x01s\x00\x00\x00\x01k\x00\x00\x00\x01v\x00\x00\x10\x00",
    )
    assert to_stored(FirstUserRecord("a")) == (b"\x04a", b"\x00")


def test_keys_are_short_whatever_the_names_are() -> None:
    """Databases bound them."""
    key, _ = to_stored(AclRecord(READ._replace(name="n" * 1024, principal=f"User:{'p' * 1000}")))
    assert len(key) == 17


def test_a_row_of_another_version_is_refused() -> None:
    key, value = to_stored(AclRecord(READ))
    assert value is not None
    with pytest.raises(ValueError, match="a row in version 1, which is not known"):
        from_stored(key, b"\x01" + value[1:])
