"""The tests of a story, for clients of any language; a test module takes them over by import.

It has to provide the fixture `story`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.live.crew import ALL
from tests.live.story import Story

__all__ = [
    "test_alone_it_has_all_partitions",
    "test_commits_are_read_back",
    "test_cooperative_members_give_up_only_what_moves",
    "test_death_gives_all_to_the_survivor",
    "test_farewell_gives_all_to_the_other",
    "test_restart_keeps_commits",
    "test_restart_keeps_members",
    "test_restart_starts_no_rebalance",
    "test_second_member_gets_its_share",
    "test_second_member_reads_on_where_the_group_was",
]

RESTARTS: Final = ("SIGTERM", "SIGKILL")


def test_alone_it_has_all_partitions(story: Story) -> None:
    """The first member of a group is assigned everything it subscribed to."""
    (owned,) = story.visit("alone").owned.values()
    assert owned == ALL


def test_commits_are_read_back(story: Story) -> None:
    """What a member commits is what it is told was committed."""
    story.visit("shared")
    assert story.notes["committed"] == {partition: 100 + partition for partition in ALL}


def test_second_member_gets_its_share(story: Story) -> None:
    """A second member makes the group rebalance, and both end with three partitions of six."""
    visit = story.visit("shared")
    assert [len(owned) for owned in visit.owned.values()] == [3, 3]
    assert visit.generation > story.visit("alone").generation
    assert "member_joined" in visit.causes[len(story.visit("alone").causes) :]


def test_second_member_reads_on_where_the_group_was(story: Story) -> None:
    """A new owner starts at the committed offset, and polling an empty topic does not move it."""
    visit = story.visit("shared")
    (second,) = (owned for name, owned in visit.owned.items() if name.endswith("second"))
    assert story.notes["the second reads on at"] == {
        partition: 100 + partition for partition in second
    }


def test_cooperative_members_give_up_only_what_moves(story: Story) -> None:
    """A cooperative member keeps what it will have again; an eager one gives up everything."""
    visit = story.visit("shared")
    (second,) = (owned for name, owned in visit.owned.items() if name.endswith("second"))
    expected = second if story.client.is_cooperative else ALL
    assert story.notes["given up when shared"] == expected


def test_death_gives_all_to_the_survivor(story: Story) -> None:
    """A member that dies without leaving loses its partitions when its session expires."""
    visit = story.visit("after a death")
    (owned,) = visit.owned.values()
    assert owned == ALL
    assert "session_expired" in visit.causes[len(story.visit("shared").causes) :]


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_keeps_members(story: Story, number: str) -> None:
    """Members find a daemon that was stopped or killed again, and are who they want to be."""
    before, after = story.visit("before SIGTERM"), story.visit(f"after {number}")
    if story.client.is_another_after_restart:
        assert len(after.ids) == len(before.ids)
    else:
        assert after.ids == before.ids
    assert after.generation >= before.generation


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_starts_no_rebalance(story: Story, number: str) -> None:
    """The generation is the same, and so is who has what, unless the client wants to rejoin."""
    before, after = story.visit("before SIGTERM"), story.visit(f"after {number}")
    if story.client.is_another_after_restart:
        assert set(after.causes) <= {"member_joined", "member_left", "session_expired"}
    elif story.client.rejoins_after_restart:
        assert set(after.causes) <= {"leader_rejoined", "subscription_changed"}
    else:
        assert after.causes == ()
        assert (after.generation, after.owned) == (before.generation, before.owned)


@pytest.mark.parametrize("number", RESTARTS)
def test_restart_keeps_commits(story: Story, number: str) -> None:
    """What was committed before a restart is there after it."""
    story.visit(f"after {number}")
    base = {"SIGTERM": 100, "SIGKILL": 200}[number]
    expected = {partition: base + partition for partition in ALL}
    assert story.notes[f"committed, found after {number}"] == expected


def test_farewell_gives_all_to_the_other(story: Story) -> None:
    """A member that closes leaves, and the other has everything without waiting for a session."""
    visit = story.visit("after a farewell")
    (owned,) = visit.owned.values()
    assert owned == ALL
    assert "member_left" in visit.causes[len(story.visit("after SIGKILL").causes) :]
