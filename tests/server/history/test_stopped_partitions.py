"""What rebalances cost, from the events that the coordinator itself makes."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from coterie_protocol.journal import (
    GroupRecovered,
    Partitions,
    TopicChanged,
    read_line,
)
from coterie_server.history import (
    RebalanceOutcome,
)
from coterie_server.serving import TopicCounts
from coterie_server.topics import TopicRow
from tests.support.group_harness import Client, assigned
from tests.support.journal_events import completed, phase, phase_joined, started
from tests.support.watched_world import SECOND_MS, WatchedWorld


def test_first_assignment_costs_nothing(world: WatchedWorld) -> None:
    first = world.member("a")
    first.join()
    world.sleep(SECOND_MS)
    world.sleep(SECOND_MS)
    world.share(first)
    assert world.last.stopped_partition_ms == 0


def test_eager_rebalance_stops_each_member_from_its_join(world: WatchedWorld) -> None:
    """Each stops all it has when it joins: the first after 1 s, the second after 3 s."""
    first, second = world.pair()
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    world.sleep(2 * SECOND_MS)
    second.join()
    world.sleep(SECOND_MS)
    world.share(first, second, third)
    assert world.last.stopped_partition_ms == (2 * 3 + 2 * 1) * SECOND_MS


def test_cooperative_rebalance_does_not_stop_what_members_keep(world: WatchedWorld) -> None:
    world.cooperative_hand_over()
    assert world.history.last("g")[0].stopped_partition_ms == 0
    assert world.history.last("g")[0].revoked == 1


def test_follow_up_pays_for_what_was_given_up(world: WatchedWorld) -> None:
    first, second, third = world.cooperative_hand_over()
    world.sleep(2 * SECOND_MS)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1), third: assigned("t", 3)})
    assert world.last.cause == "revocation_follow_up"
    assert world.last.stopped_partition_ms == (4 + 2) * SECOND_MS


def test_partitions_of_a_dead_member_stand_still_from_its_removal(world: WatchedWorld) -> None:
    first, second = world.pair(protocols=("cooperative-sticky",), session_ms=10_000)
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    world.live(11 * SECOND_MS, first)
    assert second.id not in world.group().members
    world.live(2 * SECOND_MS, first)
    first.join()
    world.share(first)
    rebalance = world.last
    assert rebalance.cause == "session_expired"
    since_ms = rebalance.started_ms
    assert rebalance.stopped_partition_ms == 2 * (world.now_ms - since_ms)


def test_silence_of_a_dead_member_is_a_part_of_its_own(world: WatchedWorld) -> None:
    first, second = world.pair(protocols=("cooperative-sticky",), session_ms=10_000)
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    world.live(11 * SECOND_MS, first)
    assert second.id not in world.group().members
    first.join()
    world.share(first)
    assert world.last.cause == "session_expired"
    assert world.last.silent_partition_ms == 2 * 10 * SECOND_MS
    # And no later rebalance pays for it again.
    first.join()
    world.share(first)
    assert world.last.silent_partition_ms == 0


def test_leaving_costs_no_silence(world: WatchedWorld) -> None:
    first, second = world.pair()
    world.live(2 * SECOND_MS, first)
    second.leave()
    first.join()
    world.share(first)
    assert world.last.silent_partition_ms == 0


def away(world: WatchedWorld) -> tuple[Client, Client]:
    """Two static members in the second phase of a rebalance to which the second did not come."""
    attributes = {"rebalance_ms": 5_000, "session_ms": 60_000, "protocols": ("cooperative-sticky",)}
    first = world.member("a", static="one", **attributes)
    second = world.member("b", static="two", **attributes)
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    first.join()
    world.sleep(5 * SECOND_MS)
    return first, second


def test_static_member_that_is_away_lets_go_of_nothing(world: WatchedWorld) -> None:
    """As far as the coordinator knows, it works on."""
    first, second = away(world)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    assert world.last.stopped_partition_ms == 0


def test_what_a_static_member_keeps_is_not_counted_the_next_time_either(
    world: WatchedWorld,
) -> None:
    first, second = away(world)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    first.join()
    world.sleep(5 * SECOND_MS)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    assert world.last.stopped_partition_ms == 0


def test_static_member_under_a_new_id_is_still_the_owner(world: WatchedWorld) -> None:
    first = world.member("a", static="one")
    world.form(first)
    again = first.restarted()
    again.join()
    again.sync()
    again.join()
    world.sleep(SECOND_MS)
    world.share(again)
    assert world.last.stopped_partition_ms == 4 * SECOND_MS


def test_superseded_rebalance_pays_until_it_is_overtaken(world: WatchedWorld) -> None:
    """Each of the two is charged for its own time, and no time is charged twice."""
    first, second = world.pair()
    first.join()
    second.join()
    world.sleep(SECOND_MS)
    third = world.member("c")
    third.join()
    world.sleep(2 * SECOND_MS)
    first.join()
    second.join()
    world.share(first, second, third)
    completed, superseded = world.history.last("g")[:2]
    assert superseded.outcome is RebalanceOutcome.SUPERSEDED
    assert superseded.stopped_partition_ms == 4 * SECOND_MS
    assert completed.stopped_partition_ms == 4 * 2 * SECOND_MS


def test_rebalance_pays_for_the_time_in_which_its_coordinator_was_down(world: WatchedWorld) -> None:
    first, second = world.pair(protocols=("cooperative-sticky",))
    second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
    first.leave()
    world.sleep(SECOND_MS)
    world.crash()
    world.sleep(2 * SECOND_MS)
    second.join()
    second.sync({second: assigned("t", 0, 1, 2, 3)})
    assert world.last.stopped_partition_ms == 2 * 3 * SECOND_MS
    assert world.last.moved == 2


def test_silence_is_paid_for_after_a_restart(world: WatchedWorld) -> None:
    _, second = world.pair(protocols=("cooperative-sticky",), session_ms=10_000)
    second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
    world.sleep(9 * SECOND_MS)
    second.heartbeat()
    world.sleep(SECOND_MS)
    world.crash()
    second.join()
    second.sync({second: assigned("t", 0, 1, 2, 3)})
    assert world.last.silent_partition_ms == 2 * 10 * SECOND_MS


def test_what_joined_members_gave_up_costs_on_after_a_restart(world: WatchedWorld) -> None:
    """The store has what they were given before."""
    first, second = world.pair()
    first.join()
    second.join()
    world.sleep(SECOND_MS)
    world.crash()
    world.sleep(SECOND_MS)
    world.share(first, second)
    assert world.last.stopped_partition_ms == 4 * 2 * SECOND_MS
    assert world.last.moved == 0


def test_follow_up_pays_on_if_its_coordinator_restarts_before_it(world: WatchedWorld) -> None:
    owned: dict[str, Partitions] = {"m": {"t": (0,)}, "n": {}}
    world.observe(0, started(from_state="Empty", generation=0))
    world.observe(0, phase_joined(phase("m", after_ms=0), generation=1))
    world.observe(0, completed(assigned={"m": {"t": (0, 1)}}, generation=1))
    world.observe(1_000, started(awaited=("m",)))
    world.observe(1_000, phase_joined(phase("m", 0, {"t": (0, 1)}), phase("n", 0)))
    world.observe(1_000, completed(assigned=owned, needs_rejoin=True))
    back = GroupRecovered(group="g", state="Stable", generation=2, members=("m", "n"))
    world.observe(3_000, replace(back, assigned=owned))
    world.observe(4_000, started(cause="revocation_follow_up", generation=2, follows=2))
    world.observe(4_000, phase_joined(phase("m", 0, {"t": (0,)}), phase("n", 0), generation=3))
    given = {"m": {"t": (0,)}, "n": {"t": (1,)}}
    world.observe(5_000, completed(assigned=given, generation=3))
    assert (world.last.stopped_partition_ms, world.last.moved) == (4_000, 1)


def test_partitions_that_are_to_be_given_later_stand_still_until_then(world: WatchedWorld) -> None:
    owned = {"m": {"t": (0, 1)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=owned),
    )
    world.observe(0, started())
    world.observe(0, phase_joined(phase("m", after_ms=0)))
    world.observe(1_000, completed(assigned={"m": {"t": (0,)}}, needs_rejoin=True))
    world.observe(5_000, started(cause="revocation_follow_up", follows=2))
    world.observe(5_000, phase_joined(phase("m", after_ms=0)))
    world.observe(6_000, completed(assigned=owned))
    follow_up, first = world.history.last("g")
    assert first.stopped_partition_ms == 2 * 1_000
    assert follow_up.stopped_partition_ms == 5_000 + 1_000


def test_partitions_left_out_of_an_assignment_cost_nothing_later(world: WatchedWorld) -> None:
    first, second = world.pair()
    first.join()
    second.join()
    first.sync({first: assigned("t", 0), second: assigned("t", 1)})
    second.sync()
    world.live(60 * SECOND_MS, first, second)
    first.join()
    second.join()
    world.share(first, second)
    assert world.last.stopped_partition_ms == 0


@pytest.mark.parametrize("deleted_ms", [500, 3_000])
def test_partitions_of_a_deleted_topic_do_not_stand_still(
    world: WatchedWorld, deleted_ms: int
) -> None:
    """An hour passes until the next rebalance."""
    both = {"m": {"t": (0,), "u": (0,)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=both),
    )
    gone = TopicChanged(topic="u", change="deleted", partitions_before=1, partitions=0)
    moments = sorted(
        [
            (deleted_ms, gone),
            (1_000, started()),
            (1_000, phase_joined(phase("m", after_ms=0, owned=both["m"]))),
            (1_500, completed(assigned={"m": {"t": (0,)}})),
        ],
        key=lambda moment: moment[0],
    )
    for moment in moments:
        world.observe(*moment)
    world.observe(3_600_000, started())
    world.observe(3_600_000, phase_joined(phase("m", after_ms=0, owned={"t": (0,)})))
    world.observe(3_600_000, completed(assigned={"m": {"t": (0,)}}))
    assert world.last.stopped_partition_ms == 0


@pytest.mark.parametrize("names", [("m", "n"), ("n", "m")])
def test_what_one_member_still_has_does_not_stand_still_when_another_lets_go_of_it(
    world: WatchedWorld, names: tuple[str, str]
) -> None:
    """`m` did not join in time, so its partition went to `n`, which never began with it."""
    given: dict[str, Partitions] = {"m": {}, "n": {"t": (0,)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=names, assigned=given),
    )
    claims: dict[str, Partitions] = {"m": {"t": (0,)}, "n": {}}
    world.observe(1_000, started())
    world.observe(1_000, phase_joined(*(phase(name, 0, claims[name]) for name in names)))
    world.observe(5_000, completed(assigned=claims))
    assert world.last.stopped_partition_ms == 0


@pytest.mark.parametrize("told_by", ["the rebalance", "another node"])
def test_partitions_of_a_topic_that_another_node_deletes_do_not_stand_still(
    world: WatchedWorld, told_by: str
) -> None:
    """The journal of the node that has the group has no line of its own about that."""
    both = {"m": {"t": (0,), "u": (0, 1)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=both),
    )
    if told_by == "the rebalance":
        world.observe(1_000, started(cause="topic_changed", detail="u deleted"))
    else:
        world.observe(1_000, started())
        counts = TopicCounts()
        counts.on_others_change = partial(world.history.observe, 1_000)
        counts.read({"u": TopicRow(name="u", topic_id=UUID(int=1), partitions=2, created_at_ms=0)})
        counts.read({})
    world.observe(1_000, phase_joined(phase("m", after_ms=0)))
    world.observe(2_000, completed(assigned={"m": {"t": (0,)}}))
    assert world.last.stopped_partition_ms == 1_000
    round_later(world, {"m": {"t": (0,)}})
    assert world.last.stopped_partition_ms == 0


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_partitions_of_a_topic_that_was_deleted_before_a_restart_do_not_stand_still(
    world: WatchedWorld, state: str
) -> None:
    """What members were given last is stored, also of topics that are there no more."""
    world.history.topics = ("t",)
    both = {"m": {"t": (0,), "u": (0, 1)}}
    world.observe(
        0, GroupRecovered(group="g", state=state, generation=1, members=("m",), assigned=both)
    )
    world.observe(2_000, completed(assigned={"m": {"t": (0,)}}))
    round_later(world, {"m": {"t": (0,)}})
    assert world.last.stopped_partition_ms == 0


def test_partitions_of_a_deleted_topic_do_not_stand_still_once_the_last_member_learns_of_it(
    world: WatchedWorld,
) -> None:
    """A member that missed an assignment joins with what it had before that."""
    both = {"m": {"t": (0,), "u": (0,)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=both),
    )
    gone = TopicChanged(topic="u", change="deleted", partitions_before=1, partitions=0)
    world.observe(500, gone)
    for at_ms in (1_000, 3_000):
        world.observe(at_ms, started())
        world.observe(at_ms, phase_joined(phase("m", 0, both["m"])))
        world.observe(at_ms, completed(assigned={"m": {"t": (0,)}}))
    round_later(world, {"m": {"t": (0,)}})
    assert world.last.stopped_partition_ms == 0


def test_partitions_of_a_topic_that_was_created_again_stand_still(world: WatchedWorld) -> None:
    both = {"m": {"t": (0,), "u": (0,)}}
    world.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=both),
    )
    gone = TopicChanged(topic="u", change="deleted", partitions_before=1, partitions=0)
    world.observe(500, gone)
    for assigned_then in ({"m": {"t": (0,)}}, both):
        world.observe(1_000, started())
        world.observe(1_000, phase_joined(phase("m", 0, both["m"])))
        world.observe(1_000, completed(assigned=assigned_then))
    world.observe(2_000, started())
    world.observe(2_000, phase_joined(phase("m", 0, {"t": (0,)})))
    world.observe(5_000, completed(assigned=both))
    assert world.last.stopped_partition_ms == 3_000


def round_later(world: WatchedWorld, owned: dict[str, Partitions]) -> None:
    """An hour passes until the next rebalance, in which a member keeps what it has."""
    world.observe(3_600_000, started())
    world.observe(3_600_000, phase_joined(phase("m", 0, owned["m"])))
    world.observe(3_600_000, completed(assigned=owned))


def test_topics_that_come_and_go_take_no_memory(world: WatchedWorld) -> None:
    """A group that does not rebalance may see any number of others' topics deleted."""
    world.pair()
    tracemalloc.start()
    try:
        for number in range(3_000):
            gone = TopicChanged(
                topic=f"other-{number}", change="deleted", partitions_before=1, partitions=0
            )
            world.history.observe(world.now_ms, gone)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 20_000


def test_cost_of_groups_that_cannot_be_read_is_unknown(world: WatchedWorld) -> None:
    """Unknown is not the same as nothing."""
    worker = world.member("a", protocol_type="connect", metadata=b"?")
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: b"?"})
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: b"?"})
    assert world.last.cause == "leader_rejoined"
    assert world.last.stopped_partition_ms is None


def test_example_in_the_documentation_costs_what_it_says(world: WatchedWorld) -> None:
    page = (Path(__file__).parents[3] / "docs" / "journal.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    owned = {"billing-a-1": {"invoices": (0, 2)}, "billing-b-2": {"invoices": (1, 3)}}
    members = tuple(owned)
    back = GroupRecovered(
        group="billing", state="Stable", generation=2, members=members, assigned=owned
    )
    world.observe(0, back)
    for line in map(read_line, example.splitlines()):
        world.observe(line.ts, line.event)
    assert world.history.last("billing")[0].stopped_partition_ms == 2 * 14 + 2 * 1_919
    assert "3.9 partition-seconds" in page
