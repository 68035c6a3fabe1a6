"""What a leader has set out to do stands until it is done, whichever assignor said it."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    RUNNING,
    STALLED,
    Adjustment,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Operations,
    Partitions,
    RebalanceProtocol,
    WarmSettings,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.test_absence import KeepingAssignor
from tests.assignors.warm_world import StatefulGroup, process, warm
from tests.assignors.world import Pair, everything, group, having, member
from tests.support.cases import for_each
from tests.support.profiles import examples


class MoodyAssignor(Assignor):
    """Says something else each time it is asked."""

    name = "moody"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.times_asked = 0

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        self.times_asked += 1
        given: dict[str, list[Pair]] = {name: [] for name in members}
        topics = {topic for each in members.values() for topic in each.topics}
        for pair in cluster.partitions_of(topics):
            able = [name for name in sorted(members) if pair[0] in members[name].topics]
            given[self._random.choice(able)].append(pair)
        return {name: group_by_topic(pairs) for name, pairs in given.items()}


class SwingingAssignor(MoodyAssignor):
    """Gives everything to one member, and the next time to another one."""

    name = "swinging"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        lucky = sorted(members)[self.times_asked % len(members)]
        self.times_asked += 1
        every = group_by_topic(cluster.partitions_of(cluster.topics))
        return {name: every if name == lucky else () for name in members}


class SteadyAssignor(SwingingAssignor):
    """Gives everything to the first member."""

    name = "steady"

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        answer = SwingingAssignor().assign(cluster, members)
        self.times_asked += 1
        return answer


TOPICS = {"t": 2}
ALL = [("t", 0), ("t", 1)]
SETTINGS = WarmSettings(max_warmup_replicas=1)


def on_the_way(assignor: Assignor) -> tuple[dict[str, MemberInfo], Adjustment]:
    """All is with `b`, and meant for `a`, which has a copy of one partition."""
    members = group(
        warm("a", ["t", "u"], {ALL[0]: 0}, process=process(1)),
        warm("b", ["t", "u"], dict.fromkeys(ALL, RUNNING), ALL, process=process(2)),
    )
    led = lead(assignor, Cluster(TOPICS), members, SETTINGS)
    assert flatten(led.withheld["a"]) == {ALL[0]}
    assert led.targets == {ALL[1]: "a"}
    return members, led


def test_a_partition_that_was_released_goes_to_the_member_it_was_released_for() -> None:
    assignor = SwingingAssignor()
    members, led = on_the_way(assignor)
    again = lead(
        assignor, Cluster(TOPICS), having(members, led.assignment), SETTINGS, plan=led.plan
    )
    assert flatten(again.assignment["a"]) == {ALL[0]}
    assert flatten(again.assignment["b"]) == {ALL[1]}
    assert assignor.times_asked == 1


def test_so_it_does_where_no_member_has_state() -> None:
    assignor = SwingingAssignor()
    members = group(member("a", ["t"]), member("b", ["t"], ALL, 1))
    led = lead(assignor, Cluster(TOPICS), members)
    assert flatten(led.withheld["a"]) == set(ALL)
    again = lead(assignor, Cluster(TOPICS), having(members, led.assignment), plan=led.plan)
    assert flatten(again.assignment["a"]) == set(ALL)
    assert not again.needs_rejoin


def test_there_is_no_plan_left_when_everything_is_where_it_belongs() -> None:
    assignor = SwingingAssignor()
    members = group(warm("a", ["t"], dict.fromkeys(ALL, RUNNING), ALL), warm("b", ["t"]))
    assert lead(assignor, Cluster(TOPICS), members, SETTINGS).plan is None
    assert lead(SwingingAssignor(), Cluster(TOPICS), group(member("a", ["t"]))).plan is None


def changed(name: str, **values: object) -> Callable[[dict[str, MemberInfo]], None]:
    """A member says something else."""

    def change(members: dict[str, MemberInfo]) -> None:
        members[name] = replace(members[name], **values)  # type: ignore[arg-type]

    return change


@for_each(
    "change",
    (
        lambda members: members.update(group(warm("c", ["t"]))),
        lambda members: members.pop("b"),
        changed("b", topics=("t",)),
        changed("b", instance_id="i"),
        changed("b", rack="r"),
        changed("b", refused=group_by_topic(ALL[:1])),
        changed("b", user_data=b"my capacity is 3"),
        changed("b", warm=None),
        changed("b", is_away=True),
        changed("b", is_drained=True),
        changed("a", warm=replace(warm("a", ["t"]), member_id="b").warm),
    ),
)
def test_the_assignor_is_asked_again_when_the_members_are_others(
    change: Callable[[dict[str, MemberInfo]], None],
) -> None:
    assignor = SwingingAssignor()
    members, led = on_the_way(assignor)
    change(members)
    lead(assignor, Cluster(TOPICS), members, SETTINGS, plan=led.plan)
    assert assignor.times_asked == 2


def test_the_assignor_is_asked_again_when_partitions_or_settings_are_others() -> None:
    assignor = SwingingAssignor()
    members, led = on_the_way(assignor)
    ask = partial(lead, assignor, members=members, plan=led.plan)
    ask(cluster=Cluster(TOPICS), settings=SETTINGS)
    assert assignor.times_asked == 1
    for number, (cluster, settings) in enumerate(
        (
            (Cluster({"t": 3}), SETTINGS),
            (Cluster(TOPICS, {"t": [frozenset("r")]}), SETTINGS),
            (Cluster(TOPICS), WarmSettings(balance_factor=2)),
        ),
        2,
    ):
        ask(cluster=cluster, settings=settings)
        assert assignor.times_asked == number


def test_a_plan_knows_how_many_partitions_there_were() -> None:
    """Callers may keep count of topics in one mapping."""
    topics, assignor = dict(TOPICS), SwingingAssignor()
    members = group(member("a", ["t"]), member("b", ["t"], ALL, 1))
    led = lead(assignor, Cluster(topics), members)
    topics["t"] = 3
    led = lead(assignor, Cluster(topics), members, plan=led.plan)
    assert sum(len(flatten(each)) for each in led.assignment.values()) == 3


def test_the_plan_of_another_assignor_counts_for_nothing() -> None:
    members, led = on_the_way(SwingingAssignor())
    other = SwingingAssignor()
    lead(other, Cluster(TOPICS), members, SETTINGS, plan=led.plan)
    assert other.times_asked == 1


class Telling(SwingingAssignor):
    """Its members tell what makes no difference."""

    def told(self, member: MemberInfo) -> Hashable:
        del member
        return None


def test_what_members_tell_may_make_no_difference() -> None:
    assignor = Telling()
    members, led = on_the_way(assignor)
    changed("b", user_data=b"it is noon")(members)
    lead(assignor, Cluster(TOPICS), members, SETTINGS, plan=led.plan)
    assert assignor.times_asked == 1


@pytest.mark.parametrize(
    ("name", "pair", "is_needed"),
    [("a", ALL[1], True), ("b", ALL[1], False), ("a", ("u", 0), False)],
)
def test_the_assignor_is_asked_again_once_when_a_copy_that_is_needed_gets_stuck(
    name: str, pair: Pair, *, is_needed: bool
) -> None:
    assignor = SteadyAssignor()
    members, led = on_the_way(assignor)
    report = members[name].warm
    assert report is not None
    stuck = replace(report, lags=dict(report.lags) | {pair: STALLED})
    members[name] = replace(members[name], warm=stuck)
    for _ in range(3):
        led = lead(assignor, Cluster(TOPICS), members, SETTINGS, plan=led.plan)
    assert assignor.times_asked == 1 + is_needed


def test_drained_members_give_up_the_next_partition_though_the_plan_stands() -> None:
    assignor = CooperativeStickyAssignor()
    pairs = [("t", number) for number in range(6)]
    members = group(member("a", ["t"]), member("b", ["t"], pairs, 1))
    drain = Operations(drained={"b": 1})
    led = lead(assignor, Cluster({"t": 6}), members, operations=drain)
    given_up = []
    while led.needs_rejoin:
        given_up.append(6 - len(flatten(led.assignment["b"])))
        members = having(members, led.assignment)
        led = lead(assignor, Cluster({"t": 6}), members, operations=drain, plan=led.plan)
    assert given_up == [1, 2, 3, 4, 5, 6]
    assert flatten(led.assignment["a"]) == set(pairs)


@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([MoodyAssignor, KeepingAssignor]),
    warmups=st.integers(1, 4),
    first=st.integers(1, 5),
    events=st.lists(st.sampled_from(["join", "leave 0", "leave 1", "leave 2"]), max_size=6),
)
@examples(150)
def test_a_group_comes_to_rest_within_the_promised_rounds_whatever_its_assignor_says(
    sizes: list[int],
    seed: int,
    kind: type[Assignor],
    warmups: int,
    first: int,
    events: list[str],
) -> None:
    topics = {f"t{n}": size for n, size in enumerate(sizes)}
    assignor = MoodyAssignor(seed) if kind is MoodyAssignor else kind()
    stateful = StatefulGroup(topics, WarmSettings(max_warmup_replicas=warmups), assignor)
    for n in range(first):
        stateful.join(f"m{n}", is_warm=bool((seed >> n) % 4))
    rounds = ceil(len(everything(topics)) / warmups)
    stateful.rounds_until_final(rounds + 2)
    for number, event in enumerate(events, first):
        stateful.catch_up()
        if event == "join":
            stateful.join(f"m{number}", is_warm=bool((seed >> number) % 4))
            stateful.rounds_until_final(rounds + 1)
        elif len(stateful.members) > 1:
            stateful.leave(sorted(stateful.members)[int(event[-1]) % len(stateful.members)])
            stateful.rounds_until_final(rounds + 2)
