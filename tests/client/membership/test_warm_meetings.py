"""Members with state and a real coordinator: who works while others catch up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_assignors import CooperativeStickyAssignor, RangeAssignor, WarmSettings, Weights
from coterie_client.membership import Assign, Lose, Revoke, Role
from coterie_client.membership.events import (
    JoinStarted,
    ReportUnreadable,
    ReportVersionChanged,
    StandbysPromoted,
    WarmUpReady,
)
from coterie_protocol.streams import LATEST_VERSION
from tests.support.membership_world import Disk, Meeting, Worker

TOPIC = {"t": 6}

#: Restores of these tests take two seconds.
SETTINGS = WarmSettings(acceptable_recovery_lag=100)


class WarmMeeting(Meeting):
    """A world of members with state, each on a disk of its own unless another one is given."""

    def warm(
        self, name: str, *, rate: int = 50, disk: Disk | None = None, **options: Any
    ) -> Worker:
        """A process with state that has not started yet."""
        values = {"warm": SETTINGS, "ready_interval_ms": 1_000} | options
        return self.worker(name, disk=disk or Disk(rate=rate), **values)

    def warm_team(self, size: int, **options: Any) -> list[Worker]:
        """Some processes that have shared everything out, and have all the state of it."""
        workers = [self.warm(f"w{number}", **options).start() for number in range(size)]
        self.rest()
        for worker in workers:
            worker.cold.clear()
        return workers

    def cold_starts(self) -> int:
        """How often work began before its state was there."""
        return sum(len(worker.cold) for worker in self.workers)


def shares(workers: list[Worker]) -> list[int]:
    """How much each of them works on."""
    return [len(worker.working) for worker in workers]


def idle_steps(meeting: Meeting, until: Callable[[], bool], partitions: int) -> int:
    """Let time pass until something holds; how many milliseconds partitions had no worker for."""
    idle_ms = 0
    deadline_ms = meeting.now_ms + 300_000
    while not until():
        before_ms, missing = meeting.now_ms, partitions - sum(shares(meeting.alive))
        assert meeting.step(deadline_ms), meeting.describe_workers()
        idle_ms += missing * (meeting.now_ms - before_ms)
    return idle_ms


# -- scaling out -------------------------------------------------------------------------------


def test_newcomer_gets_partitions_when_it_has_their_state() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    second = meeting.warm("second").start()
    meeting.run(4_000)
    assert shares([first, second]) == [6, 0]
    assert len(second.roles) == 2
    assert set(second.roles.values()) == {Role.WARM_UP}
    meeting.rest()
    assert shares([first, second]) == [3, 3]
    assert meeting.cold_starts() == 0


@pytest.mark.slow
def test_leader_does_not_ask_for_balance_while_a_warm_up_is_under_way() -> None:
    meeting = WarmMeeting({"t": 12})
    by_loads = [CooperativeStickyAssignor(Weights(smoothing=30.0, rebalance=True))]
    (first,) = meeting.warm_team(1, assignors=by_loads)
    second = meeting.warm("second", rate=0, assignors=by_loads).start()
    for _ in range(60):
        for partition in first.working:
            first.machine.load(partition, 5.0, meeting.now_ms)
        meeting.run(30_000)
    assert Role.WARM_UP in second.roles.values()
    assert shares([first, second]) == [12, 0]
    reasons = [each.reason for worker in meeting.workers for each in worker.seen(JoinStarted)]
    assert [reason for reason in reasons if reason.startswith("load")] == []


def test_newcomer_restores_on_while_the_owner_lets_go() -> None:
    meeting = WarmMeeting({"t": 2})
    (first,) = meeting.warm_team(1, finish_ms=20_000)
    second = meeting.warm("second").start()
    until_ms = meeting.now_ms + 60_000
    while not first.machine._state.releasing:  # noqa: SLF001
        assert meeting.step(until_ms)
    meeting.run(2_000)
    assert list(second.roles.values()) == [Role.STANDBY]
    assert second.roles.keys() == first.machine._state.releasing  # noqa: SLF001
    meeting.rest()
    assert shares([first, second]) == [1, 1]


def test_owner_that_knows_its_state_to_be_good_does_not_get_it_back() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    second = meeting.warm("second").start()
    assert first.disk is not None
    first.disk.end = 10**9  # nothing lacks from now on
    first.disk.positions = dict.fromkeys(first.disk.positions, 10**9)
    meeting.rest()
    assert shares([first, second]) == [3, 3]
    assert len([each for each in first.told if isinstance(each, Assign)]) == 1


def test_partitions_hardly_stand_still() -> None:
    # A cold start of three partitions would take two seconds each.
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    second = meeting.warm("second").start()
    idle_ms = idle_steps(meeting, lambda: shares([first, second]) == [3, 3], 6)
    assert idle_ms < 3 * 200


def test_warm_ups_that_catch_up_do_not_wait_for_probing() -> None:
    meeting = WarmMeeting(TOPIC)
    meeting.warm_team(1)
    began_ms = meeting.now_ms
    second = meeting.warm("second").start()
    meeting.rest()
    assert meeting.now_ms - began_ms < 15_000
    reasons = [event.reason for event in second.seen(JoinStarted)]
    assert any(reason.startswith("warm: ") for reason in reasons)
    assert second.seen(WarmUpReady)


def test_leader_probes_where_members_do_not_say_that_they_are_ready() -> None:
    settings = WarmSettings(
        acceptable_recovery_lag=100,
        probing_rebalance_interval_ms=30_000,
        allow_short_probing=True,
    )
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1, warm=settings)
    second = meeting.warm("second", warm=settings, ready_interval_ms=10**8)
    second.machine._standbys._ready_from_ms = 10**15  # noqa: SLF001  # it has just said so
    second.start()
    meeting.rest(300_000)
    assert shares([first, second]) == [3, 3]
    reasons = [event.reason for event in first.seen(JoinStarted)]
    assert sum(reason.startswith("probing: ") for reason in reasons) >= 2
    assert not second.seen(WarmUpReady)
    assert meeting.cold_starts() == 0


def test_never_more_warm_ups_than_the_budget() -> None:
    meeting = WarmMeeting({"t": 9})
    meeting.warm_team(1)
    newcomers = [meeting.warm(f"n{number}").start() for number in range(2)]
    until_ms = meeting.now_ms + 60_000
    while meeting.step(until_ms):
        warming = [p for each in newcomers for p, r in each.roles.items() if r is Role.WARM_UP]
        assert len(warming) <= SETTINGS.max_warmup_replicas
    assert sorted(shares(meeting.alive)) == [3, 3, 3]


def test_without_state_on_any_member_nothing_is_different() -> None:
    meeting = Meeting(TOPIC)
    workers = meeting.team(2)
    meeting.worker("third").start()
    meeting.settle()
    assert [len(each.working) for each in meeting.alive] == [2, 2, 2]
    assert all(each.roles == {} for each in workers)


def test_group_at_rest_stays_so() -> None:
    meeting = WarmMeeting(TOPIC)
    meeting.warm_team(3)
    generations = {each.machine.identity.generation for each in meeting.alive}
    meeting.run(11 * 60_000)
    assert {each.machine.identity.generation for each in meeting.alive} == generations


# -- standbys ----------------------------------------------------------------------------------


def test_standby_takes_over_at_once() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(3, warm=settings)
    meeting.run(10_000)
    assert sum(len(each.roles) for each in workers) == 6
    workers[0].die()
    meeting.rest()
    assert sum(shares(meeting.alive)) == 6
    assert meeting.cold_starts() == 0
    assert any(each.seen(StandbysPromoted) for each in meeting.alive)


def test_standbys_are_in_other_processes_than_what_they_stand_by_for() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(2, warm=settings)
    meeting.run(10_000)
    for worker in workers:
        assert not worker.roles.keys() & worker.working.keys()
    assert sum(len(each.roles) for each in workers) == 6


# -- coming and going --------------------------------------------------------------------------


def test_process_that_comes_back_has_what_is_on_its_disk() -> None:
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(2)
    disk = workers[0].disk
    workers[0].close()
    meeting.rest()
    for worker in workers:
        worker.cold.clear()
    began_ms = meeting.now_ms
    again = meeting.warm("again", disk=disk).start()
    meeting.rest()
    assert shares([again, workers[1]]) == [3, 3]
    assert meeting.cold_starts() == 0
    assert meeting.now_ms - began_ms < 4_500  # the first one hears of it within 3 s


def test_static_member_that_comes_back_in_time_changes_nothing() -> None:
    meeting = WarmMeeting(TOPIC)
    meeting.warm_team(1, instance="a")
    second = meeting.warm("second", instance="b").start()
    meeting.rest()
    generation = second.machine.identity.generation
    had = set(second.working)
    second.die()
    meeting.run(3_000)
    again = meeting.warm("second", instance="b", disk=second.disk).start()
    meeting.rest()
    assert again.machine.identity.generation == generation
    assert set(again.working) == had
    assert meeting.cold_starts() == 0


def test_static_standby_that_comes_back_restores_on() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    meeting = WarmMeeting(TOPIC)
    meeting.warm_team(1, instance="a", warm=settings)
    second = meeting.warm("second", instance="b", warm=settings).start()
    meeting.rest()
    had = dict(second.roles)
    assert had
    second.die()
    meeting.run(3_000)
    again = meeting.warm("second", instance="b", warm=settings, disk=second.disk).start()
    meeting.rest()
    assert again.roles == had


def test_crash_in_the_middle_of_a_warm_up_leaves_the_owner_at_work() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    first.told.clear()
    second = meeting.warm("second", rate=5).start()
    meeting.run(5_000)
    second.die()
    meeting.run(60_000)
    assert shares([first]) == [6]
    assert first.told == []


def test_leader_that_dies_while_others_warm_up() -> None:
    meeting = WarmMeeting(TOPIC)
    first, second = meeting.warm_team(2)
    leader, other = (first, second) if first.machine.is_leader else (second, first)
    third = meeting.warm("third", rate=20).start()
    meeting.run(1_000)
    leader.die()
    meeting.rest()
    assert sorted(shares([other, third])) == [3, 3]
    # What the dead one had starts cold, as there are no standbys.
    assert meeting.cold_starts() <= 3


def test_probing_goes_on_after_the_leader_restarts() -> None:
    settings = WarmSettings(
        acceptable_recovery_lag=100,
        probing_rebalance_interval_ms=60_000,
    )
    meeting = WarmMeeting(TOPIC)
    (leader,) = meeting.warm_team(1, instance="a", warm=settings)
    assert leader.machine.is_leader
    second = meeting.warm("second", instance="b", warm=settings, rate=1)
    second.start()
    meeting.run(5_000)
    planned = leader.machine._standbys._probe_ms  # noqa: SLF001
    assert planned is not None
    leader.die()
    meeting.run(3_000)
    again = meeting.warm("leader", instance="a", warm=settings, disk=leader.disk).start()
    meeting.run(2_000)
    assert again.machine._standbys._probe_ms == planned  # noqa: SLF001


def test_lost_lease_leaves_standbys_alone() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(2, warm=settings)
    had = [set(each.roles) for each in workers]
    meeting.stop_node()
    meeting.run(15_000)
    assert all(each.working == {} for each in workers)
    assert [set(each.roles) for each in workers] == had
    meeting.start_node()
    meeting.rest()
    assert meeting.cold_starts() == 0


# -- members of other kinds --------------------------------------------------------------------


def test_member_without_state_gets_partitions_at_once() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    plain = meeting.worker("plain").start()
    meeting.settle()
    assert shares([first, plain]) == [3, 3]
    assert plain.roles == {}


def test_member_without_state_may_lead_those_with_state() -> None:
    meeting = WarmMeeting(TOPIC)
    (plain,) = meeting.team(1, warm=SETTINGS)
    second = meeting.warm("second").start()
    meeting.run(500)
    assert plain.machine.is_leader
    meeting.rest()
    assert shares([plain, second]) == [3, 3]
    meeting.warm("third").start()
    meeting.rest()
    assert sorted(shares(meeting.alive)) == [2, 2, 2]


def test_eager_members_stop_and_go_on_with_what_they_have_the_state_of() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1, assignors=(RangeAssignor(),))
    second = meeting.warm("second", assignors=(RangeAssignor(),)).start()
    meeting.run(4_000)
    assert shares([first, second]) == [6, 0]
    meeting.rest()
    assert shares([first, second]) == [3, 3]
    assert meeting.cold_starts() == 0


def test_upgrade_from_eager_to_cooperative_leaves_state_where_it_is() -> None:
    meeting = WarmMeeting(TOPIC)
    both = (RangeAssignor(), CooperativeStickyAssignor())
    workers = meeting.warm_team(2, assignors=both)
    for index, worker in enumerate(workers):
        worker.close()
        meeting.run(2_000)
        workers[index] = meeting.warm(f"new{index}", disk=worker.disk).start()
        meeting.rest()
    assert sorted(shares(workers)) == [3, 3]


# -- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [7, 9, 10])
def test_rolling_upgrade_from_an_older_version(old: int) -> None:
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(3, warm_version=old)
    for index, worker in enumerate(workers):
        worker.close()
        meeting.run(2_000)
        workers[index] = meeting.warm(f"new{index}", disk=worker.disk).start()
        meeting.rest()
        assert sorted(shares(workers)) == [2, 2, 2]
    assert {each.machine._standbys.version for each in workers} == {LATEST_VERSION}  # noqa: SLF001
    assert not any(each.seen(ReportUnreadable) for each in meeting.workers)
    assert meeting.cold_starts() == 0


@pytest.mark.parametrize("old", [7, 9, 10])
def test_rolling_downgrade_to_an_older_version(old: int) -> None:
    meeting = WarmMeeting(TOPIC)
    workers = meeting.warm_team(3)
    for index, worker in enumerate(workers):
        worker.close()
        meeting.run(2_000)
        workers[index] = meeting.warm(f"old{index}", disk=worker.disk, warm_version=old).start()
        meeting.rest()
        assert sorted(shares(workers)) == [2, 2, 2]
    assert {each.machine._standbys.version for each in workers} == {old}  # noqa: SLF001
    assert meeting.cold_starts() == 0


@pytest.mark.parametrize("old", [3, 6, 7, 10])
def test_leader_that_knows_less_has_a_newcomer_fall_back(old: int) -> None:
    meeting = WarmMeeting(TOPIC)
    (leader,) = meeting.warm_team(1, warm_version=old)
    second = meeting.warm("second").start()
    meeting.run(10_000)
    assert leader.machine.is_leader
    assert second.machine._standbys.version == old  # noqa: SLF001
    assert len(second.seen(ReportVersionChanged)) == 1


@pytest.mark.parametrize("old", [7, 9, 10])
def test_warm_ups_go_on_between_members_of_different_versions(old: int) -> None:
    meeting = WarmMeeting({"t": 4, "u": 2})
    first = meeting.warm("first", warm_version=old).start()
    meeting.rest()
    second = meeting.worker("second", "t", "u", disk=Disk(), warm=SETTINGS, ready_interval_ms=1_000)
    second.start()
    meeting.rest()
    assert second.working.keys() >= {("u", 0), ("u", 1)}
    assert len(first.working) == 3
    assert not any(p[0] == "t" for p in second.cold)


def test_members_of_different_versions_come_to_rest() -> None:
    meeting = WarmMeeting(TOPIC)
    for number, version in enumerate((11, 7, 10, 8)):
        meeting.warm(f"w{number}", warm_version=version).start()
        meeting.run(300)
    meeting.rest()
    generation = meeting.workers[0].machine.identity.generation
    meeting.run(11 * 60_000)
    assert meeting.workers[0].machine.identity.generation == generation


def test_nothing_is_taken_away_without_cause() -> None:
    meeting = WarmMeeting(TOPIC)
    (first,) = meeting.warm_team(1)
    first.told.clear()
    meeting.warm("second").start()
    meeting.rest()
    moves = [each for each in first.told if isinstance(each, Revoke)]
    assert sum(len(each.partitions) for each in moves) == 3
    assert not [each for each in first.told if isinstance(each, Lose | Assign)]
