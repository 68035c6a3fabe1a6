"""The tests of a lifecycle, for clients of any language; test modules import them.

They have to provide the fixture `lifecycle`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.live.group import ALL
from tests.live.lifecycle import Lifecycle

__all__ = [
    "test_commits_are_read_back",
    "test_new_owner_starts_at_the_committed_offset",
    "test_only_cooperative_members_keep_what_does_not_move",
    "test_other_member_gets_all_partitions_when_one_leaves",
    "test_restart_keeps_commits",
    "test_restart_keeps_members",
    "test_restart_starts_no_rebalance",
    "test_second_member_gets_half_of_the_partitions",
    "test_single_member_has_all_partitions",
    "test_survivor_gets_all_partitions_when_a_session_expires",
]

RESTARTS: Final = ("SIGTERM", "SIGKILL")


def test_single_member_has_all_partitions(lifecycle: Lifecycle) -> None:
    (owned,) = lifecycle.view("alone").owned.values()
    assert owned == ALL


def test_commits_are_read_back(lifecycle: Lifecycle) -> None:
    lifecycle.view("shared")
    assert lifecycle.notes["committed"] == {partition: 100 + partition for partition in ALL}


def test_second_member_gets_half_of_the_partitions(lifecycle: Lifecycle) -> None:
    view = lifecycle.view("shared")
    assert [len(owned) for owned in view.owned.values()] == [3, 3]
    assert view.generation > lifecycle.view("alone").generation
    assert "member_joined" in view.causes[len(lifecycle.view("alone").causes) :]


def test_new_owner_starts_at_the_committed_offset(lifecycle: Lifecycle) -> None:
    view = lifecycle.view("shared")
    (second,) = (owned for name, owned in view.owned.items() if name.endswith("second"))
    assert lifecycle.notes["the second reads on at"] == {
        partition: 100 + partition for partition in second
    }


def test_only_cooperative_members_keep_what_does_not_move(lifecycle: Lifecycle) -> None:
    view = lifecycle.view("shared")
    (second,) = (owned for name, owned in view.owned.items() if name.endswith("second"))
    expected = second if lifecycle.client.is_cooperative else ALL
    assert lifecycle.notes["given up when shared"] == expected


def test_survivor_gets_all_partitions_when_a_session_expires(lifecycle: Lifecycle) -> None:
    view = lifecycle.view("after a death")
    (owned,) = view.owned.values()
    assert owned == ALL
    assert "session_expired" in view.causes[len(lifecycle.view("shared").causes) :]


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_keeps_members(lifecycle: Lifecycle, number: str) -> None:
    before, after = lifecycle.view("before SIGTERM"), lifecycle.view(f"after {number}")
    if lifecycle.client.is_another_after_restart:
        assert len(after.ids) == len(before.ids)
    else:
        assert after.ids == before.ids
    assert after.generation >= before.generation


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_starts_no_rebalance(lifecycle: Lifecycle, number: str) -> None:
    before, after = lifecycle.view("before SIGTERM"), lifecycle.view(f"after {number}")
    former = {"SIGTERM": before, "SIGKILL": lifecycle.view("after SIGTERM")}[number]
    causes = after.causes[len(former.causes) :]
    if lifecycle.client.is_another_after_restart:
        assert set(causes) <= {"member_joined", "member_left", "session_expired"}
    elif lifecycle.client.rejoins_after_restart:
        assert set(causes) <= {"leader_rejoined", "subscription_changed"}
    else:
        assert causes == ()
        assert (after.generation, after.owned) == (before.generation, before.owned)


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_keeps_commits(lifecycle: Lifecycle, number: str) -> None:
    lifecycle.view(f"after {number}")
    base = {"SIGTERM": 100, "SIGKILL": 200}[number]
    expected = {partition: base + partition for partition in ALL}
    assert lifecycle.notes[f"committed, found after {number}"] == expected


def test_other_member_gets_all_partitions_when_one_leaves(lifecycle: Lifecycle) -> None:
    view = lifecycle.view("after a farewell")
    (owned,) = view.owned.values()
    assert owned == ALL
    assert "member_left" in view.causes[len(lifecycle.view("after SIGKILL").causes) :]
