"""Groups belong to the principals that made them, which may have so many, and so large ones."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.config.assembly import group_config
from coterie_server.config.settings import Settings, SettingsError
from coterie_server.group import Config, GroupCoordinator
from coterie_server.security import ANONYMOUS, Principal
from coterie_server.storage.offset_bundles import OffsetBundles
from tests.support.group_harness import CountedIds
from tests.support.requests import Asked

ANN = Principal("User", "ann")
BOB = Principal("User", "bob")


class Office:
    """A coordinator that principals ask for groups."""

    def __init__(self, **settings: Any) -> None:
        self.config = Config(**settings)
        self.rows: dict[bytes, bytes] = {}
        self.bundles = OffsetBundles()
        self.limits: list[str] = []
        self.start()

    def start(self) -> None:
        """Read what is stored."""
        self.coordinator = GroupCoordinator(self.config, CountedIds(), {"t": 1})
        self.coordinator.recover(OffsetBundles().unpack(sorted(self.rows.items())), 0)

    def ask(self, principal: Principal, message: Any, version: int) -> Any:
        """Ask for something, and take what comes of it."""
        outcome = self.coordinator.handle(Asked(message, version, principal=principal), 0)
        for key, value in self.bundles.pack(outcome.records):
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.limits += [hit.setting for hit in outcome.limit_hits]
        return outcome.replies[0][1] if outcome.replies else None

    def commit(self, principal: Principal, group: str) -> int:
        """Have a group made by a commit; answer the error code."""
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
        asked = m.OffsetCommitRequest(group_id=group, topics=(topic,))
        return int(self.ask(principal, asked, 8).topics[0].partitions[0].error_code)

    def join(self, principal: Principal, group: str, name: str) -> int | None:
        """Join a group as a static member; answer the error code, or None if it is parked."""
        asked = m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=name,
            protocol_type="consumer",
            protocols=(m.JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        answer = self.ask(principal, asked, 5)
        return None if answer is None else int(answer.error_code)


def test_a_principal_makes_so_many_groups() -> None:
    office = Office(max_groups_per_owner=2, max_groups_by_owner={"User:bob": 1})
    assert [office.commit(ANN, f"a{n}") for n in range(3)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert [office.commit(BOB, f"b{n}") for n in range(2)] == [0, ErrorCode.POLICY_VIOLATION]
    assert [office.commit(ANONYMOUS, f"c{n}") for n in range(5)] == [0] * 5
    assert office.limits == ["max.groups.per.principal"] * 2
    assert office.commit(BOB, "a0") == 0  # it was made by another


def test_a_group_that_is_deleted_makes_room_also_after_a_restart() -> None:
    office = Office(max_groups_per_owner=2)
    assert [office.commit(ANN, f"a{n}") for n in range(2)] == [0, 0]
    office.start()
    assert office.commit(ANN, "a2") == ErrorCode.POLICY_VIOLATION
    office.ask(BOB, m.DeleteGroupsRequest(groups_names=("a0",)), 2)
    assert office.commit(ANN, "a2") == 0
    assert office.commit(ANN, "a3") == ErrorCode.POLICY_VIOLATION


def test_the_groups_of_some_principals_are_of_another_size() -> None:
    office = Office(max_size=5, max_size_by_owner={"User:ann": 1})
    assert office.join(ANN, "a", "i1") is None
    assert office.join(BOB, "a", "i2") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert office.join(BOB, "b", "i1") is None
    assert office.join(ANN, "b", "i2") is None


def test_the_settings_name_principals_with_numbers() -> None:
    settings = Settings.load(
        overrides=[
            "max.groups.per.principal=3",
            "max.groups.per.principal.overrides=User:ann=10; User:CN=bob,OU=x=20;",
            "group.max.size.overrides=User:ann=7",
        ]
    )
    config = group_config(settings)
    assert config.max_groups_per_owner == 3
    assert config.max_groups_by_owner == {"User:ann": 10, "User:CN=bob,OU=x": 20}
    assert config.max_size_by_owner == {"User:ann": 7}


@pytest.mark.parametrize("text", ["ann=1", "User:ann", "User:ann=0", "User:ann=x"])
def test_what_names_no_principal_with_a_number_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"User:ann=10"):
        Settings.load(overrides=[f"group.max.size.overrides={text}"])
