"""Standbys: apart from each other, evenly spread, and where copies are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import Cluster, CooperativeStickyAssignor, WarmSettings, lead
from coterie_protocol.consumer import flatten
from tests.assignors.warm_world import Scripted, StatefulGroup, process, warm
from tests.assignors.world import Pair, group, loads
from tests.support.profiles import examples


def holders(members: StatefulGroup, pair: Pair) -> list[str]:
    """The members that work on a partition or have a copy of it."""
    return [name for name, each in members.members.items() if pair in (each.copies or {})]


def settled(
    topics: Mapping[str, int], tags: Mapping[str, Mapping[str, str]], standbys: int
) -> StatefulGroup:
    members = StatefulGroup(topics, WarmSettings(num_standbys=standbys))
    for name, theirs in tags.items():
        members.join(name, tags=theirs)
    assert members.rounds_until_final(1) == 1
    return members


def test_copies_are_in_different_zones() -> None:
    zones = {f"m{n}": {"zone": "abc"[n % 3]} for n in range(6)}
    members = settled({"t": 12}, zones, 2)
    for number in range(12):
        where = [zones[name]["zone"] for name in holders(members, ("t", number))]
        assert sorted(where) == ["a", "b", "c"]


def test_copies_differ_in_as_many_tags_as_possible() -> None:
    tags = {
        "m0": {"zone": "a", "power": "x"},
        "m1": {"zone": "a", "power": "y"},
        "m2": {"zone": "b", "power": "x"},
        "m3": {"zone": "b", "power": "y"},
    }
    members = settled({"t": 8}, tags, 1)
    apart = {"m0": "m3", "m1": "m2", "m2": "m1", "m3": "m0"}
    for number in range(8):
        one, other = holders(members, ("t", number))
        assert apart[one] == other


def test_racks_count_as_tags() -> None:
    members = [warm(f"m{n}", ["t"], rack=f"rack{n // 2}") for n in range(4)]
    led = lead(
        Scripted({("t", 0): "m0"}), Cluster({"t": 1}), group(*members), WarmSettings(num_standbys=1)
    )
    assert set(led.standbys) <= {"m2", "m3"}


def test_a_crowded_copy_moves_once_there_is_a_better_place() -> None:
    members = settled({"t": 2}, {"m0": {"zone": "a"}, "m1": {"zone": "a"}, "x": {"zone": "c"}}, 1)
    members.leave("x")
    members.round()
    members.catch_up()
    members.join("m2", tags={"zone": "b"})
    members.rounds_until_final(5)
    zones = {"m0": "a", "m1": "a", "m2": "b"}
    for number in range(2):
        assert len({zones[name] for name in holders(members, ("t", number))}) == 2


def test_tags_that_tell_nothing_apart_are_left_out() -> None:
    """A tag that is different everywhere would take time, and change nothing."""
    alike = settled({"t": 9}, {f"m{n}": {"host": f"h{n}", "zone": "a"} for n in range(3)}, 1)
    plain = settled({"t": 9}, {f"m{n}": {} for n in range(3)}, 1)
    assert [holders(alike, ("t", n)) for n in range(9)] == [
        holders(plain, ("t", n)) for n in range(9)
    ]


@pytest.mark.parametrize("standbys", [1, 2, 5])
def test_standbys_are_spread_evenly(standbys: int) -> None:
    members = settled({"t": 10, "u": 7}, {f"m{n}": {} for n in range(4)}, standbys)
    counts = [len(each.copies or {}) for each in members.members.values()]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == 17 * (1 + min(standbys, 3))


def test_standbys_move_to_a_newcomer_once_it_has_copies() -> None:
    members = settled({"t": 12}, {"m0": {}, "m1": {}}, 1)
    members.catch_up()
    members.join("m2")
    members.rounds_until_final(12 + 1)
    counts = [len(each.copies or {}) for each in members.members.values()]
    assert counts == [8, 8, 8]


def test_members_of_the_owners_process_are_no_place_for_a_standby() -> None:
    led = lead(
        Scripted({("t", 0): "m0"}),
        Cluster({"t": 1}),
        group(
            warm("m0", ["t"], process=process(1)),
            warm("m1", ["t"], process=process(1)),
            warm("m2", ["t"], process=process(2)),
        ),
        WarmSettings(num_standbys=2),
    )
    assert loads(led.standbys) == {"m2": 1}


def test_a_standby_stays_with_the_member_of_a_process_that_has_the_copy() -> None:
    led = lead(
        Scripted({("t", 0): "owner"}),
        Cluster({"t": 1}),
        group(
            warm("owner", ["t"], {("t", 0): -2}, [("t", 0)]),
            *(
                warm(f"m{n}", ["t"], {("t", 0): 5} if n == 2 else {}, process=process(1))
                for n in range(4)
            ),
        ),
        WarmSettings(num_standbys=1),
    )
    assert loads(led.standbys) == {"m2": 1}


def test_a_standby_where_the_partition_is_to_move_stays_there() -> None:
    """It is the partition itself that crowds that place."""
    pair = ("t", 0)
    led = lead(
        Scripted({pair: "new"}),
        Cluster({"t": 1}),
        group(
            warm("old", ["t"], {pair: -2}, [pair], tags={"zone": "a"}),
            warm("new", ["t"], tags={"zone": "b"}),
            warm("other", ["t"], tags={"zone": "a"}),
            warm("another", ["t"], tags={"zone": "c"}),
        ),
        WarmSettings(num_standbys=1),
    )
    assert loads(led.standbys) == {"new": 1}
    assert not led.warmups


def test_refusing_members_get_no_copy() -> None:
    pair = ("t", 0)
    led = lead(
        Scripted({pair: "m0"}),
        Cluster({"t": 1}),
        group(warm("m0", ["t"]), warm("m1", ["t"], refused=[pair]), warm("m2", ["t"])),
        WarmSettings(num_standbys=2),
    )
    assert loads(led.standbys) == {"m2": 1}


def test_a_member_keeps_its_copy_of_what_is_withheld_for_it() -> None:
    pair = ("t", 0)
    led = lead(
        Scripted({pair: "new"}),
        Cluster({"t": 1}),
        group(warm("old", ["t"], {pair: -2}, [pair]), warm("new", ["t"], {pair: 7})),
        WarmSettings(),
    )
    assert set(flatten(led.withheld["new"])) == {pair}
    assert set(flatten(led.standbys["new"])) == {pair}


@given(
    zones=st.lists(st.sampled_from("abcd"), min_size=2, max_size=7),
    partitions=st.integers(1, 10),
    standbys=st.integers(1, 4),
)
@examples(60)
def test_no_two_copies_share_a_zone_that_could_be_apart(
    zones: list[str], partitions: int, standbys: int
) -> None:
    tags = {f"m{n}": {"zone": zone} for n, zone in enumerate(zones)}
    members = settled({"t": partitions}, tags, standbys)
    for number in range(partitions):
        where = [tags[name]["zone"] for name in holders(members, ("t", number))]
        assert len(where) == min(1 + standbys, len(zones))
        assert len(set(where)) == min(len(where), len(set(zones)))


def test_asked_in_another_order_it_says_the_same() -> None:
    infos = [
        warm(
            f"m{n}",
            ["t"],
            {("t", (n + k) % 5): 10 * k for k in range(3)},
            tags={"zone": "ab"[n % 2]},
        )
        for n in range(5)
    ]
    settings = WarmSettings(num_standbys=2)
    answers = [
        lead(CooperativeStickyAssignor(), Cluster({"t": 5}), group(*order), settings)
        for order in (infos, infos[::-1])
    ]
    assert answers[0] == answers[1]
