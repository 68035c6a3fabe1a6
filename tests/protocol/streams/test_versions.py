"""How the members of a group settle on a version."""

from __future__ import annotations

import pytest

from coterie_protocol.streams import LATEST_VERSION, GroupVersions, next_version


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], GroupVersions(11, 11, is_probing=False)),
        ([(11, 11), (11, 11)], GroupVersions(11, 11, is_probing=False)),
        ([(11, 11), (7, 7)], GroupVersions(7, 7, is_probing=False)),
        ([(11, 11), (7, 11)], GroupVersions(7, 11, is_probing=False)),
        ([(11, 14), (11, 12)], GroupVersions(11, 11, is_probing=False)),
        ([(12, 13), (11, 11)], GroupVersions(11, 11, is_probing=True)),
        ([(12, 13), (9, 9)], GroupVersions(9, 9, is_probing=True)),
        ([(12, 13)], GroupVersions(11, 11, is_probing=True)),
        ([(2, -1), (11, 11)], GroupVersions(2, -1, is_probing=False)),
    ],
)
def test_a_leader_learns_what_all_members_know(
    members: list[tuple[int, int]], expected: GroupVersions
) -> None:
    assert GroupVersions.of(members) == expected


def test_a_leader_may_know_fewer_versions() -> None:
    assert GroupVersions.of([(11, 11), (9, 9)], latest=9) == GroupVersions(9, 9, is_probing=True)


@pytest.mark.parametrize(
    ("used", "received", "commonly_supported", "expected"),
    [
        (11, 11, 11, 11),
        (9, 9, 9, 9),
        (11, 9, 9, 9),  # some member is too old for what this one wrote
        (9, 9, 11, 11),  # the last old member has been replaced
        (11, 9, 11, 11),  # all know 11, and those that used 9 will write it as well
        (11, 7, 9, 9),
        (9, 9, 14, 11),  # the leader can't know what this member knows
        (11, 3, 1, 3),
        (11, 2, -1, 11),  # such old members can't tell what they know
        (2, 2, -1, 2),
    ],
)
def test_a_member_changes_its_version_if_it_was_too_new_or_too_old(
    used: int, received: int, commonly_supported: int, expected: int
) -> None:
    assert next_version(used, received, commonly_supported) == expected


class Member:
    """A member that writes the latest version that it knows, until it is told otherwise."""

    def __init__(self, latest: int) -> None:
        self.latest = self.used = latest

    def hear(self, group: GroupVersions) -> bool:
        """Take an assignment, and say whether it leads to another join."""
        before = self.used
        self.used = next_version(self.used, group.used, group.commonly_supported, self.latest)
        return self.used != before


def settle(members: list[Member], leader: Member) -> int:
    """Have the members join until none of them wants to join again; return how often they did."""
    for rounds in range(1, 10):
        said = [(member.used, member.latest) for member in members]
        group = GroupVersions.of(said, leader.latest)
        changed = [member.hear(group) for member in members]
        if not any(changed):
            return rounds
    raise AssertionError("the members never settle")


@pytest.mark.parametrize("old", range(3, LATEST_VERSION))
@pytest.mark.parametrize("leader", [0, 2])
def test_a_rolling_upgrade_settles_at_each_step(old: int, leader: int) -> None:
    members = [Member(old) for _ in range(3)]
    for place in range(3):
        members[place] = Member(LATEST_VERSION)
        assert settle(members, members[leader]) <= 2
        expected = LATEST_VERSION if place == 2 else old
        assert [member.used for member in members] == [expected] * 3


@pytest.mark.parametrize("old", range(3, LATEST_VERSION))
@pytest.mark.parametrize("leader", [0, 2])
def test_a_rolling_downgrade_settles_at_each_step(old: int, leader: int) -> None:
    members = [Member(LATEST_VERSION) for _ in range(3)]
    for place in range(3):
        members[place] = Member(old)
        assert settle(members, members[leader]) <= 2
        assert [member.used for member in members] == [old] * 3
