"""Groups with state come to rest, whatever happens to them.

`StatefulGroup` checks in every rebalance that no partition has two owners, that there are no more
warm-ups than allowed, that no process has two copies, and that no cold member works on what another
one is caught up with.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import (
    UNKNOWN,
    Assignor,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    WarmSettings,
)
from coterie_protocol.consumer import flatten
from tests.assignors.warm_world import Scripted, StatefulGroup
from tests.assignors.world import everything
from tests.support.profiles import examples

ASSIGNORS: Final[tuple[type[Assignor], ...]] = (
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    StickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
)

topic_sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(
    lambda sizes: {f"t{n}": size for n, size in enumerate(sizes)}
)


@given(
    topics=topic_sizes,
    assignor=st.sampled_from(ASSIGNORS),
    warmups=st.integers(1, 4),
    standbys=st.integers(0, 2),
    first=st.integers(1, 5),
    processes=st.sampled_from([None, 2, 3]),
    events=st.lists(st.sampled_from(["join", "leave 0", "leave 1", "leave 2"]), max_size=6),
)
@examples(150)
def test_it_converges_within_the_promised_rounds(
    topics: dict[str, int],
    assignor: type[Assignor],
    warmups: int,
    standbys: int,
    first: int,
    processes: int | None,
    events: list[str],
) -> None:
    group = StatefulGroup(
        topics, WarmSettings(max_warmup_replicas=warmups, num_standbys=standbys), assignor()
    )

    def join(number: int) -> None:
        group.join(f"m{number}", number=None if processes is None else number % processes)

    for n in range(first):
        join(n)
    group.rounds_until_final(1)
    # Standbys move as partitions do.
    rounds = ceil(len(everything(topics)) * (1 + standbys) / warmups)
    for number, event in enumerate(events, first):
        # Members are caught up with what they have by the time the next one comes or goes.
        group.catch_up()
        if event == "join":
            join(number)
            group.rounds_until_final(rounds + 1)
        elif len(group.members) > 1:
            group.leave(sorted(group.members)[int(event[-1]) % len(group.members)])
            group.rounds_until_final(rounds + 2)


def test_instance_sticky_does_not_send_a_partition_to_and_fro() -> None:
    sizes = {"t0": 2, "t1": 4, "t2": 7, "t3": 7}
    settings = WarmSettings(max_warmup_replicas=1, num_standbys=1)
    group = StatefulGroup(sizes, settings, InstanceStickyAssignor())
    for n in range(5):
        group.join(f"m{n}")
    group.rounds_until_final(1)
    group.catch_up()
    group.join("m5")
    group.rounds_until_final(41)
    group.catch_up()
    group.leave("m0")
    group.rounds_until_final(42)


@st.composite
def turbulences(draw: Any) -> StatefulGroup:
    """A group to which anything happens, at any time; it never waits for copies to catch up."""
    topics = draw(topic_sizes)
    group = StatefulGroup(
        topics,
        WarmSettings(
            acceptable_recovery_lag=draw(st.sampled_from([0, 100, 10_000])),
            num_standbys=draw(st.integers(0, 2)),
            max_warmup_replicas=draw(st.integers(1, 3)),
            balance_factor=draw(st.integers(1, 3)),
        ),
        draw(st.sampled_from(ASSIGNORS))(),
    )
    left: dict[str, dict[tuple[str, int], int]] = {}

    def join(number: int) -> None:
        again = sorted(left.keys() - group.members.keys())
        name = again[0] if again and draw(st.booleans()) else f"m{number}"
        subscription = st.sets(st.sampled_from(sorted(topics)), min_size=1)
        copies = {pair: max(0, lag) for pair, lag in left.pop(name, {}).items()}
        group.join(
            name,
            topics=sorted(draw(st.one_of(st.just(set(topics)), subscription))),
            number=draw(st.sampled_from([None, 1, 2, 3])),
            tags={"zone": draw(st.sampled_from("abc")), "host": name},
            is_warm=draw(st.sampled_from([True, True, False])),
            copies={
                pair: lag + draw(st.sampled_from([0, 50, 20_000])) for pair, lag in copies.items()
            },
        )

    join(0)
    for number in range(1, draw(st.integers(1, 10))):
        if len(group.members) > 1 and draw(st.sampled_from([True, False, False])):
            name = draw(st.sampled_from(sorted(group.members)))
            left[name] = group.leave(name).copies or {}
        else:
            join(number)
        for member in group.members.values():
            for pair in sorted(member.copies or ()):
                assert member.copies is not None
                if member.copies[pair] >= 0 and draw(st.booleans()):
                    member.copies[pair] = draw(st.sampled_from([0, 60, 5_000, 40_000, UNKNOWN]))
        group.rebalance()
    return group


@given(group=turbulences())
@examples(150)
def test_whatever_happens_the_group_comes_to_rest(group: StatefulGroup) -> None:
    copies = sum(group.cluster.topics.values()) * (1 + group.settings.num_standbys)
    for _ in range(2):
        group.catch_up()
        group.rounds_until_final(4 * copies + 5)
    before = {name: set(member.owned) for name, member in group.members.items()}
    led = group.rebalance()
    assert led.is_final
    assert not led.needs_rejoin
    assert not led.warmups
    assert {name: set(flatten(given)) for name, given in led.assignment.items()} == before


@given(
    owners=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    targets=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    warmups=st.integers(1, 3),
)
@examples(60)
def test_the_targets_of_any_assignor_are_reached(
    owners: list[int], targets: list[int], warmups: int
) -> None:
    pairs = [("t", number) for number in range(len(owners))]
    wanted = {pair: f"m{targets[number]}" for number, pair in enumerate(pairs)}
    group = StatefulGroup(
        {"t": len(pairs)}, WarmSettings(max_warmup_replicas=warmups), Scripted(wanted)
    )
    for n in range(3):
        group.join(f"m{n}")
        group.members[f"m{n}"].owned = {
            pair for pair, owner in zip(pairs, owners, strict=True) if owner == n
        }
        group.members[f"m{n}"].copies = dict.fromkeys(group.members[f"m{n}"].owned, -2)
    group.rounds_until_final(ceil(len(pairs) / warmups) + 1)
    assert all(pair in group.members[name].owned for pair, name in wanted.items())


@given(
    topics=topic_sizes,
    assignor=st.sampled_from(ASSIGNORS),
    warmups=st.integers(1, 3),
    first=st.integers(1, 5),
    speeds=st.lists(st.integers(50_000, 1_000_000), min_size=1, max_size=20),
)
@examples(60)
def test_no_copy_is_begun_and_given_up(
    topics: dict[str, int],
    assignor: type[Assignor],
    warmups: int,
    first: int,
    speeds: list[int],
) -> None:
    """Copies catch up at different speeds while a newcomer gets its share."""
    group = StatefulGroup(topics, WarmSettings(max_warmup_replicas=warmups), assignor())
    for n in range(first):
        group.join(f"m{n}")
    group.rounds_until_final(1)
    group.catch_up()
    before = {name: set(member.owned) for name, member in group.members.items()}
    group.join("newcomer")
    begun: set[tuple[str, tuple[str, int]]] = set()
    for turn in range(1_000):
        is_final = group.round().is_final
        for n, (name, member) in enumerate(group.members.items()):
            begun |= {(name, pair) for pair in member.copies or ()}
            done = speeds[(turn + n) % len(speeds)]
            member.copies = {
                pair: lag if lag < 0 else max(0, lag - done)
                for pair, lag in (member.copies or {}).items()
            }
        if is_final:
            break
    kept = {(name, pair) for name, member in group.members.items() for pair in member.owned}
    had = {(name, pair) for name, pairs in before.items() for pair in pairs}
    assert begun <= kept | had


def test_a_partition_between_two_members_goes_on_though_the_assignor_changed_its_mind() -> None:
    """Released for a stock member, and then meant for a cold one, it must not go back for ever."""
    group = StatefulGroup({"a": 2, "b": 2}, WarmSettings(max_warmup_replicas=1))
    group.join("owner")
    group.round()
    group.catch_up()
    group.join("cold")
    group.join("stock", is_warm=False)
    group.rounds_until_final(4)
    assert sorted(len(member.owned) for member in group.members.values()) == [1, 1, 2]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_member_that_comes_back_with_its_files_takes_over_at_once(
    assignor: type[Assignor],
) -> None:
    group = StatefulGroup({"t": 4}, WarmSettings(), assignor())
    for name in ("a", "b"):
        group.join(name)
    group.round()
    group.catch_up()
    left = group.leave("a")
    group.round()
    assert left.copies is not None
    group.join("a", copies=dict.fromkeys(left.copies, 10))
    led = group.round()
    assert led.is_final
    assert len(group.members["a"].owned) == 2
