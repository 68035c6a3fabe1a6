"""What the parts get from the settings: ids that are never given twice, and names as written."""

from __future__ import annotations

import uuid

import pytest

from coterie_server.config.assembly import RandomIds, SequenceIds, access_config, group_config
from coterie_server.config.settings import Settings


def test_kafkas_ids_name_the_client() -> None:
    ids = RandomIds()
    assert ids.member_id("g", "client", "/h", None).startswith("client-")
    assert ids.member_id("g", "client", "/h", "i1").startswith("i1-")
    assert len({ids.member_id("g", "c", "/h", None) for _ in range(100)}) == 100


def test_kafkas_ids_end_in_a_random_uuid() -> None:
    for member_id in (RandomIds().member_id("g", "c", "/h", None) for _ in range(100)):
        text = member_id.removeprefix("c-")
        found = uuid.UUID(text)
        assert (str(found), found.version, found.variant) == (text, 4, uuid.RFC_4122)


def test_sequence_ids_say_group_and_host_and_count() -> None:
    ids = SequenceIds(1)
    assert ids.member_id("orders", "c", "/10.0.0.5", None) == "orders-10.0.0.5-1000001"
    assert ids.member_id("orders", "c", "/10.0.0.5", "i1") == "orders-10.0.0.5-1000002"


def test_sequences_of_two_starts_do_not_meet() -> None:
    """Or a member from before a crash would be mistaken for a new one."""
    before = {SequenceIds(1).member_id("g", "", "h", None) for _ in range(10)}
    after = {SequenceIds(2).member_id("g", "", "h", None) for _ in range(10)}
    assert not before & after


def test_topic_ids_differ() -> None:
    assert RandomIds().topic_id() != RandomIds().topic_id()


@pytest.mark.parametrize("blank", ["\xa0", "\u2003"])
def test_blanks_that_java_keeps_belong_to_the_names_of_principals(blank: str) -> None:
    """Without them, others would be super users than in Kafka."""
    overrides = [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"super.users= User:ann\t; User:bob{blank}",
        f"max.groups.per.principal.overrides=User:bob{blank}=3 ; User:ann =4",
    ]
    settings = Settings.load(overrides=overrides)
    access = access_config(settings)
    assert access is not None
    assert access.super_users == {"User:ann", f"User:bob{blank}"}
    assert group_config(settings).max_groups_by_owner == {f"User:bob{blank}": 3, "User:ann": 4}
