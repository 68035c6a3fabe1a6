"""The leader withholds what is still owned, and says when to rejoin (KIP-429)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from coterie_assignors import (
    Assignor,
    Claim,
    Cluster,
    CooperativeStickyAssignor,
    InvalidAssignmentError,
    MemberInfo,
    Partitions,
    StickyAssignor,
    adjust,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import (
    Pair,
    group,
    having,
    loads,
    member,
    rounds_until_settled,
    without,
)

Owned = Mapping[str, list[int]]


def after(
    owned: Owned, target: Owned, *, generations: Mapping[str, int] | None = None
) -> tuple[dict[str, list[int]], bool]:
    """Adjust, for one topic that all want; answer what to send and whether to rejoin."""
    adjusted = adjust(
        {
            name: Claim(_partitions(numbers), (generations or {}).get(name, 1))
            for name, numbers in owned.items()
        },
        {name: _partitions(numbers) for name, numbers in target.items()},
        {name: ["t"] for name in target},
    )
    sent = {name: [n for _, n in sorted(flatten(p))] for name, p in adjusted.assignment.items()}
    return sent, adjusted.needs_rejoin


def _partitions(numbers: list[int]) -> Partitions:
    return group_by_topic(("t", number) for number in numbers)


def test_kept_and_unowned_partitions_are_assigned_at_once() -> None:
    assert after({"a": [0]}, {"a": [0, 1], "b": [2]}) == ({"a": [0, 1], "b": [2]}, False)


def test_partition_of_another_owner_is_withheld() -> None:
    assert after({"a": [0, 1]}, {"a": [0], "b": [1]}) == ({"a": [0], "b": []}, True)


def test_released_partition_is_assigned_in_the_next_round() -> None:
    assert after({"a": [0]}, {"a": [0], "b": [1]}) == ({"a": [0], "b": [1]}, False)


def test_exchanged_partitions_are_both_withheld() -> None:
    assert after({"a": [0], "b": [1]}, {"a": [1], "b": [0]}) == ({"a": [], "b": []}, True)


def test_owned_partition_unknown_to_the_assignor_stays_with_its_owner() -> None:
    assert after({"a": [0, 7]}, {"a": [0], "b": [1]}) == ({"a": [0, 7], "b": [1]}, False)


def test_unknown_topic_does_not_stay_with_an_owner_that_no_longer_subscribes() -> None:
    claims = {"a": Claim(group_by_topic([("gone", 0), ("old", 0)]), 1)}
    adjusted = adjust(claims, {"a": ()}, {"a": ["old"]})
    assert flatten(adjusted.assignment["a"]) == {("old", 0)}


def test_partition_claimed_by_two_is_withheld_from_both() -> None:
    assert after({"a": [0], "b": [0]}, {"a": [0], "b": []}) == ({"a": [], "b": []}, True)


def test_partition_claimed_by_two_is_withheld_from_a_third() -> None:
    sent = after({"a": [0], "b": [0]}, {"a": [], "b": [], "c": [0]})
    assert sent == ({"a": [], "b": [], "c": []}, True)


def test_unknown_partition_claimed_by_two_is_dropped() -> None:
    assert after({"a": [7], "b": [7]}, {"a": [], "b": []}) == ({"a": [], "b": []}, False)


def test_newer_claim_keeps_its_partition() -> None:
    sent = after({"a": [0], "b": [0]}, {"a": [], "b": [0]}, generations={"a": 3, "b": 4})
    assert sent == ({"a": [], "b": [0]}, False)


def test_older_claimant_waits_for_the_newer_one() -> None:
    sent = after({"a": [0], "b": [0]}, {"a": [0], "b": []}, generations={"a": 3, "b": 4})
    assert sent == ({"a": [], "b": []}, True)


def test_undisputed_old_claim_is_respected() -> None:
    """A member that missed a generation may still be working on what it owned."""
    sent = after({"a": [0], "b": []}, {"a": [], "b": [0]}, generations={"a": 1, "b": 9})
    assert sent == ({"a": [], "b": []}, True)


def test_withheld_partitions_are_told_with_their_next_owner() -> None:
    adjusted = adjust(
        {"a": Claim(_partitions([0, 1, 2]), 1)},
        {"a": _partitions([0]), "b": _partitions([1]), "c": _partitions([2])},
        {name: ["t"] for name in "abc"},
    )
    assert adjusted.withheld == {"b": _partitions([1]), "c": _partitions([2])}


def test_claims_of_absurd_partition_numbers_are_handled_like_unknown_ones() -> None:
    assert after({"a": [2**31 - 1, -5]}, {"a": [0]}) == ({"a": [-5, 0, 2**31 - 1]}, False)


def test_newcomer_is_served_in_two_rounds() -> None:
    topics = {"t": 6}
    members = group(member("a", ["t"]), member("b", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    assert rounds_until_settled(topics, settled | group(member("c", ["t"]))) == 2


def test_leaver_takes_one_round() -> None:
    topics = {"t": 6}
    members = group(member("a", ["t"]), member("b", ["t"]), member("c", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    assert rounds_until_settled(topics, without(settled, "b")) == 1


def test_second_newcomer_between_the_rounds_takes_two_more_rounds() -> None:
    topics = {"t": 12}
    members = group(member("a", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    joined = settled | group(member("b", ["t"]))
    first = lead(CooperativeStickyAssignor(), Cluster(topics), joined)
    assert loads(first.assignment) == {"a": 6, "b": 0}
    again = having(joined, first.assignment, 2) | group(member("c", ["t"]))
    assert rounds_until_settled(topics, again) == 2


def test_disputed_partition_is_settled_in_two_rounds() -> None:
    topics = {"t": 2}
    members = group(member("a", ["t"], [("t", 0)], 1), member("b", ["t"], [("t", 0)], 1))
    first = lead(CooperativeStickyAssignor(), Cluster(topics), members)
    assert first.needs_rejoin
    assert {pair for p in first.assignment.values() for pair in flatten(p)} == {("t", 1)}
    second = lead(CooperativeStickyAssignor(), Cluster(topics), having(members, first.assignment))
    assert not second.needs_rejoin
    assert loads(second.assignment) == {"a": 1, "b": 1}


def test_nothing_is_withheld_from_eager_members() -> None:
    members = group(member("a", ["t"]), member("b", ["t"]))
    data = StickyAssignor().subscription_user_data(["t"], _partitions([0, 1, 2, 3]), 1)
    members["a"] = replace(members["a"], user_data=data)
    led = lead(StickyAssignor(), Cluster({"t": 4}), members)
    assert loads(led.assignment) == {"a": 2, "b": 2}
    assert not led.needs_rejoin


def test_upgrade_withholds_from_cooperative_members_only() -> None:
    members = group(
        member("cooperative", ["t"], [("t", n) for n in range(4)], 1), member("eager", ["t"])
    )
    led = lead(CooperativeStickyAssignor(), Cluster({"t": 6}), members)
    assert loads(led.assignment) == {"cooperative": 3, "eager": 2}
    assert led.needs_rejoin


class Scripted(Assignor):
    """Answers what it was told to."""

    name: ClassVar[str] = "scripted"

    def __init__(self, answer: Mapping[str, list[Pair]]) -> None:
        """Answer this."""
        self.answer = {name: group_by_topic(pairs) for name, pairs in answer.items()}

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Answer it."""
        del cluster, members
        return self.answer


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"a": [("t", 0)]}, "members missing or unknown: b"),
        ({"a": [], "b": [], "c": []}, "members missing or unknown: c"),
        ({"a": [("t", 0)], "b": [("t", 0)]}, "b is given some of t twice"),
        ({"a": [("t", 0), ("t", 0)], "b": []}, "a is given some of t twice"),
        ({"a": [("u", 0)], "b": []}, "a did not subscribe to u"),
    ],
)
def test_answer_that_breaks_the_rules_is_refused(
    answer: Mapping[str, list[Pair]], complaint: str
) -> None:
    with pytest.raises(InvalidAssignmentError, match=complaint):
        lead(Scripted(answer), Cluster({"t": 1}), group(member("a", ["t"]), member("b", ["t"])))


@pytest.mark.parametrize(
    "answer", [None, [], {"a": None}, {"a": [("t", 0)]}, {"a": (group_by_topic([("t", 0)]),)}]
)
def test_answer_of_another_type_is_refused(answer: Any) -> None:
    assignor = Scripted({})
    assignor.answer = answer
    with pytest.raises(InvalidAssignmentError, match="not a dict of TopicPartitions by member"):
        lead(assignor, Cluster({"t": 1}), group(member("a", ["t"])))


def test_assignor_may_leave_a_partition_unassigned() -> None:
    led = lead(Scripted({"a": []}), Cluster({"t": 1}), group(member("a", ["t"])))
    assert led.assignment == {"a": ()}
