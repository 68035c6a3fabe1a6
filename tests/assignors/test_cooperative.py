"""The leader withholds what is still owned, and says when to rejoin (KIP-429)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

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


def test_what_is_kept_and_what_nobody_owns_is_given_at_once() -> None:
    """Without a change of owner there is nothing to wait for."""
    assert after({"a": [0]}, {"a": [0, 1], "b": [2]}) == ({"a": [0, 1], "b": [2]}, False)


def test_what_another_owns_is_withheld() -> None:
    """The new owner has to wait; the old one sees that it is to give it up."""
    assert after({"a": [0, 1]}, {"a": [0], "b": [1]}) == ({"a": [0], "b": []}, True)


def test_what_was_released_is_given_in_the_next_round() -> None:
    """Once nobody claims it any more, it goes to its new owner, and that is the end of it."""
    assert after({"a": [0]}, {"a": [0], "b": [1]}) == ({"a": [0], "b": [1]}, False)


def test_exchange() -> None:
    """Two that are to exchange what they have both have nothing for a round."""
    assert after({"a": [0], "b": [1]}, {"a": [1], "b": [0]}) == ({"a": [], "b": []}, True)


def test_owned_but_unknown_is_handed_back() -> None:
    """What the assignor knows nothing of stays with who owns it, without another round."""
    assert after({"a": [0, 7]}, {"a": [0], "b": [1]}) == ({"a": [0, 7], "b": [1]}, False)


def test_unknown_topic_no_longer_wanted_is_not_handed_back() -> None:
    """Nobody is given what it did not subscribe to: Kafka's members would refuse it."""
    claims = {"a": Claim(group_by_topic([("gone", 0), ("old", 0)]), 1)}
    adjusted = adjust(claims, {"a": ()}, {"a": ["old"]})
    assert flatten(adjusted.assignment["a"]) == {("old", 0)}


def test_claimed_by_two_goes_to_neither() -> None:
    """A partition that two claim in one generation is withheld even from them."""
    assert after({"a": [0], "b": [0]}, {"a": [0], "b": []}) == ({"a": [], "b": []}, True)


def test_claimed_by_two_goes_to_no_third_one() -> None:
    """Nor is it given to anybody else until both have released it."""
    sent = after({"a": [0], "b": [0]}, {"a": [], "b": [], "c": [0]})
    assert sent == ({"a": [], "b": [], "c": []}, True)


def test_claimed_by_two_and_unknown_is_dropped() -> None:
    """What is unknown and disputed is handed back to nobody."""
    assert after({"a": [7], "b": [7]}, {"a": [], "b": []}) == ({"a": [], "b": []}, False)


def test_newer_claim_keeps_its_partition() -> None:
    """A zombie's older claim does not take a partition away from its owner."""
    sent = after({"a": [0], "b": [0]}, {"a": [], "b": [0]}, generations={"a": 3, "b": 4})
    assert sent == ({"a": [], "b": [0]}, False)


def test_newer_claim_holds_against_the_older_claimant() -> None:
    """Nor can the older claimant be given it while the newer one has it."""
    sent = after({"a": [0], "b": [0]}, {"a": [0], "b": []}, generations={"a": 3, "b": 4})
    assert sent == ({"a": [], "b": []}, True)


def test_old_claim_that_nobody_disputes_is_respected() -> None:
    """Who missed a generation may still be working on what it owned: others wait."""
    sent = after({"a": [0], "b": []}, {"a": [], "b": [0]}, generations={"a": 1, "b": 9})
    assert sent == ({"a": [], "b": []}, True)


def test_says_what_waits_for_whom() -> None:
    """The withheld partitions are told, each with the member that is to have it."""
    adjusted = adjust(
        {"a": Claim(_partitions([0, 1, 2]), 1)},
        {"a": _partitions([0]), "b": _partitions([1]), "c": _partitions([2])},
        {name: ["t"] for name in "abc"},
    )
    assert adjusted.withheld == {"b": _partitions([1]), "c": _partitions([2])}


def test_absurd_claims_cost_nothing() -> None:
    """Partitions with huge or negative numbers are handed back like other unknown ones."""
    assert after({"a": [2**31 - 1, -5]}, {"a": [0]}) == ({"a": [-5, 0, 2**31 - 1]}, False)


def test_newcomer_is_served_in_two_rounds() -> None:
    """One joins two who own everything: a round to revoke, a round to assign."""
    topics = {"t": 6}
    members = group(member("a", ["t"]), member("b", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    assert rounds_until_settled(topics, settled | group(member("c", ["t"]))) == 2


def test_leaver_takes_one_round() -> None:
    """What a member that is gone had is free at once."""
    topics = {"t": 6}
    members = group(member("a", ["t"]), member("b", ["t"]), member("c", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    assert rounds_until_settled(topics, without(settled, "b")) == 1


def test_second_newcomer_between_the_rounds() -> None:
    """Another member joins while partitions are on their way: still only two more rounds."""
    topics = {"t": 12}
    members = group(member("a", ["t"]))
    settled = having(members, CooperativeStickyAssignor().assign(Cluster(topics), members))
    joined = settled | group(member("b", ["t"]))
    first = lead(CooperativeStickyAssignor(), Cluster(topics), joined)
    assert loads(first.assignment) == {"a": 6, "b": 0}
    again = having(joined, first.assignment, 2) | group(member("c", ["t"]))
    assert rounds_until_settled(topics, again) == 2


def test_disputed_partition_is_settled_in_two_rounds() -> None:
    """Claimed by two, given to neither, released, and then given to one."""
    topics = {"t": 2}
    members = group(member("a", ["t"], [("t", 0)], 1), member("b", ["t"], [("t", 0)], 1))
    first = lead(CooperativeStickyAssignor(), Cluster(topics), members)
    assert first.needs_rejoin
    assert {pair for p in first.assignment.values() for pair in flatten(p)} == {("t", 1)}
    second = lead(CooperativeStickyAssignor(), Cluster(topics), having(members, first.assignment))
    assert not second.needs_rejoin
    assert loads(second.assignment) == {"a": 1, "b": 1}


def test_eager_members_wait_for_nothing() -> None:
    """An eager assignor's members own nothing when they join, so nothing is withheld."""
    members = group(member("a", ["t"]), member("b", ["t"]))
    data = StickyAssignor().subscription_user_data(["t"], _partitions([0, 1, 2, 3]), 1)
    members["a"] = replace(members["a"], user_data=data)
    led = lead(StickyAssignor(), Cluster({"t": 4}), members)
    assert loads(led.assignment) == {"a": 2, "b": 2}
    assert not led.needs_rejoin


def test_upgrade_from_eager_with_both_kinds_in_one_generation() -> None:
    """What a cooperative member owns is withheld; what an eager one revoked is given at once."""
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
        self._answer = {name: group_by_topic(pairs) for name, pairs in answer.items()}

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Answer it."""
        del cluster, members
        return self._answer


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
def test_broken_assignor_is_found_out(answer: Mapping[str, list[Pair]], complaint: str) -> None:
    """An answer against the rules is not sent to anybody."""
    with pytest.raises(InvalidAssignmentError, match=complaint):
        lead(Scripted(answer), Cluster({"t": 1}), group(member("a", ["t"]), member("b", ["t"])))


def test_partition_may_be_left_out() -> None:
    """An assignor may leave partitions to nobody."""
    led = lead(Scripted({"a": []}), Cluster({"t": 1}), group(member("a", ["t"])))
    assert led.assignment == {"a": ()}
