"""Single rules of the refiner, each on the smallest group that shows it."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_assignors import (
    RUNNING,
    STALLED,
    UNKNOWN,
    MemberInfo,
    WarmSettings,
)
from coterie_assignors.base import Claim
from coterie_assignors.warm.refiner import Refined, refine
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.warm_world import process, warm
from tests.assignors.world import Pair, group

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def refined(targets: Mapping[Pair, str], *members: MemberInfo, most: int = 2) -> Refined:
    infos = group(*members)
    return refine(
        {
            name: group_by_topic(pair for pair, taker in targets.items() if taker == name)
            for name in infos
        },
        infos,
        {name: Claim(info.owned, info.generation) for name, info in infos.items()},
        WarmSettings(acceptable_recovery_lag=100, max_warmup_replicas=most),
    )


def actives(answer: Refined) -> dict[Pair, str]:
    return {pair: name for name, each in answer.active.items() for pair in flatten(each)}


def warmups(answer: Refined) -> set[tuple[str, Pair]]:
    return {(name, pair) for name, each in answer.warmups.items() for pair in flatten(each)}


def test_warm_ups_under_way_come_first() -> None:
    old = warm("old", ["t"], dict.fromkeys([T0, T1, T2], RUNNING), [T0, T1, T2])
    new = warm("new", ["t"], {T1: UNKNOWN, T2: 5000})
    targets = dict.fromkeys([T0, T1, T2], "new")
    assert warmups(refined(targets, old, new, most=1)) == {("new", T2)}
    assert warmups(refined(targets, old, new, most=2)) == {("new", T1), ("new", T2)}


def test_warm_ups_that_have_stalled_come_last() -> None:
    old = warm("old", ["t"], dict.fromkeys([T0, T1, T2], RUNNING), [T0, T1, T2])
    new = warm("new", ["t"], {T0: STALLED, T1: UNKNOWN})
    targets = dict.fromkeys([T0, T1, T2], "new")
    assert warmups(refined(targets, old, new, most=1)) == {("new", T1)}
    assert warmups(refined(targets, old, new, most=2)) == {("new", T1), ("new", T2)}
    assert warmups(refined(targets, old, new, most=3)) == {("new", each) for each in targets}


def test_an_owner_that_says_nothing_of_its_state_keeps_working() -> None:
    """It may have begun to report only now."""
    answer = refined({T0: "new"}, warm("old", ["t"], owned=[T0]), warm("new", ["t"], {T0: 5000}))
    assert actives(answer) == {T0: "old"}


def test_an_owner_that_is_still_restoring_keeps_it_if_none_is_caught_up() -> None:
    old = warm("old", ["t"], {T0: 9000}, [T0])
    answer = refined({T0: "new"}, old, warm("new", ["t"]), warm("other", ["t"], {T0: 500}))
    assert actives(answer) == {T0: "old"}
    assert warmups(answer) == {("new", T0)}


def test_a_member_of_the_owners_process_needs_no_warm_up() -> None:
    old = warm("old", ["t"], {T0: RUNNING}, [T0], process=process(1))
    answer = refined({T0: "new"}, old, warm("new", ["t"], process=process(1)))
    assert actives(answer) == {T0: "new"}
    assert answer.is_final


def test_a_copy_belongs_to_all_members_of_its_process() -> None:
    old = warm("old", ["t"], {T0: RUNNING}, [T0])
    one = warm("one", ["t"], {T0: 7}, process=process(1))
    answer = refined({T0: "two"}, old, one, warm("two", ["t"], process=process(1)))
    assert actives(answer) == {T0: "two"}


def test_a_stateless_owner_keeps_it_until_the_new_one_is_warm() -> None:
    old = MemberInfo(member_id="old", topics=("t",), owned=group_by_topic([T0]), generation=1)
    answer = refined({T0: "new"}, old, warm("new", ["t"]))
    assert actives(answer) == {T0: "old"}
    assert warmups(answer) == {("new", T0)}
    assert answer.targets == {T0: "new"}


def test_an_owner_that_refuses_does_not_keep_it() -> None:
    old = warm("old", ["t"], {T0: RUNNING}, [T0], refused=[T0])
    answer = refined({T0: "new"}, old, warm("new", ["t"]))
    assert actives(answer) == {T0: "new"}


def test_an_owner_that_no_longer_subscribes_does_not_keep_it() -> None:
    old = warm("old", ["other"], {T0: RUNNING}, [T0])
    answer = refined({T0: "new"}, old, warm("new", ["t"]))
    assert actives(answer) == {T0: "new"}


def test_what_two_members_claim_goes_to_the_one_that_is_caught_up() -> None:
    one, two = (warm(name, ["t"], {T0: lag}, [T0]) for name, lag in (("one", 500), ("two", 3)))
    answer = refined({T0: "new"}, one, two, warm("new", ["t"]))
    assert actives(answer) == {T0: "two"}


def test_of_those_caught_up_the_one_least_far_behind_takes_over() -> None:
    members = [warm(name, ["t"], {T0: lag}) for name, lag in (("a", 50), ("b", 7), ("c", 60))]
    assert actives(refined({T0: "new"}, *members, warm("new", ["t"]))) == {T0: "b"}


def test_of_equals_the_one_with_the_least_to_do_takes_over() -> None:
    busy = warm("a", ["t"], {T0: 7, T1: RUNNING}, [T1])
    answer = refined({T0: "new", T1: "a"}, busy, warm("b", ["t"], {T0: 7}), warm("new", ["t"]))
    assert actives(answer)[T0] == "b"


def test_odd_lags_are_unknown_ones() -> None:
    old = warm("old", ["t"], {T0: RUNNING}, [T0])
    for lag in (-1, -4, 2**70):
        answer = refined({T0: "new"}, old, warm("new", ["t"], {T0: lag}))
        assert actives(answer) == {T0: "old"}
