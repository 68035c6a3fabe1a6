"""What a group of sticky members looks like after this and that has happened to it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
)
from coterie_protocol.consumer import flatten
from tests.assignors.world import (
    Pair,
    assert_fair,
    everything,
    group,
    having,
    loads,
    member,
    moved,
    without,
)

TWO = ["t0", "t1"]


def share(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
    """Share out, and check what always has to hold."""
    given = CooperativeStickyAssignor().assign(Cluster(topics), members)
    assert_fair(topics, members, given)
    return given


def pairs(given: Mapping[str, Partitions]) -> dict[str, set[Pair]]:
    """An assignment as pairs."""
    return {name: set(flatten(partitions)) for name, partitions in given.items()}


def settled(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members when they come back with what they were given."""
    return having(members, share(topics, members))


def all_of(topic: str, count: int) -> set[Pair]:
    """All partitions of one topic."""
    return {(topic, number) for number in range(count)}


# A group's beginnings


def test_member_that_wants_nothing_is_given_nothing() -> None:
    """A member without topics is in the answer, with nothing."""
    assert share({"t": 3}, group(member("a", []))) == {"a": ()}


def test_topic_that_does_not_exist_is_passed_over() -> None:
    """A subscription to what is not there harms nobody."""
    assert pairs(share({}, group(member("a", ["t"])))) == {"a": set()}


def test_nobody_is_given_nothing() -> None:
    """A group without members is shared out, too."""
    assert share({"t": 3}, {}) == {}


def test_single_member_is_given_all() -> None:
    """Who is alone has everything it wants."""
    assert pairs(share({"t": 3}, group(member("a", ["t"])))) == {"a": all_of("t", 3)}


def test_only_wanted_topics_are_given() -> None:
    """Topics that nobody subscribed to stay out."""
    assert pairs(share({"t": 3, "u": 3}, group(member("a", ["t"])))) == {"a": all_of("t", 3)}


def test_single_member_with_several_topics() -> None:
    """All topics of the only member go to it."""
    given = pairs(share({"t0": 1, "t1": 2}, group(member("a", TWO))))
    assert given == {"a": everything({"t0": 1, "t1": 2})}


def test_more_members_than_partitions() -> None:
    """Of two members one goes without when there is one partition."""
    assert loads(share({"t": 1}, group(member("a", ["t"]), member("b", ["t"])))) == {"a": 1, "b": 0}


def test_as_many_members_as_partitions() -> None:
    """Each is given one."""
    assert loads(share({"t": 2}, group(member("a", ["t"]), member("b", ["t"])))) == {"a": 1, "b": 1}


def test_mixed_subscriptions() -> None:
    """The one that wants more topics leaves the shared one to those that want nothing else."""
    members = group(member("a", ["t0"]), member("b", ["t0", "t1"]), member("c", ["t0"]))
    given = pairs(share({"t0": 3, "t1": 2}, members))
    assert given["b"] == all_of("t1", 2)


def test_equal_topics_are_split_evenly() -> None:
    """Of two topics with three partitions each of two members is given three."""
    members = group(member("a", TWO), member("b", TWO))
    assert loads(share({"t0": 3, "t1": 3}, members)) == {"a": 3, "b": 3}


def test_each_topic_is_spread_over_the_members() -> None:
    """Not only the sums are even: no topic gathers in few members."""
    topics = {"t0": 8, "t1": 8, "t2": 8}
    members = group(*(member(f"m{n}", topics) for n in range(4)))
    for partitions in share(topics, members).values():
        assert [len(entry.partitions) for entry in partitions] == [2, 2, 2]


def test_uneven_quota_is_filled_exactly() -> None:
    """Seven partitions for three members make 3, 2 and 2, whatever they had before."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 2), ("t", 3)], 1),
        member("c", ["t"], [("t", 4), ("t", 5)], 1),
    )
    given = share({"t": 7}, members)
    assert sorted(loads(given).values()) == [2, 2, 3]
    assert moved(members, given) == 0


# Members come and go


def test_newcomer_is_given_its_share() -> None:
    """A second member takes over half, and no more than that moves."""
    members = settled({"t": 4}, group(member("a", ["t"])))
    given = share({"t": 4}, members | group(member("b", ["t"])))
    assert loads(given) == {"a": 2, "b": 2}
    assert moved(members, given) == 2


def test_newcomer_to_an_uneven_group() -> None:
    """Of three partitions one moves to the second member, not two."""
    members = settled({"t": 3}, group(member("a", ["t"])))
    given = share({"t": 3}, members | group(member("b", ["t"])))
    assert loads(given) == {"a": 2, "b": 1}


def test_leavers_partitions_go_to_those_who_stay() -> None:
    """When one of two leaves, the other has everything, and keeps what it had."""
    members = without(settled({"t": 3}, group(member("a", ["t"]), member("b", ["t"]))), "a")
    given = share({"t": 3}, members)
    assert pairs(given) == {"b": all_of("t", 3)}


def test_two_come_and_two_leave() -> None:
    """Through growth and shrinking over two topics only what has to move moves."""
    topics = {"t0": 3, "t1": 3}
    members = settled(topics, group(member("a", TWO), member("b", TWO)))
    more = members | group(member("c", TWO), member("d", TWO))
    given = share(topics, more)
    # 3 + 3 becomes 2 + 2 + 1 + 1.
    assert moved(members, given) == 2
    fewer = without(having(more, given), "a", "c")
    assert moved(fewer, share(topics, fewer)) == 0


def test_one_of_many_leaves() -> None:
    """Of 19 members over 20 topics one leaves: the others keep all they have."""
    topics = {f"t{n:02}": n for n in range(1, 20)}
    members = settled(topics, group(*(member(f"m{n:02}", topics) for n in range(19))))
    rest = without(members, "m10")
    assert moved(rest, share(topics, rest)) == 0


def test_one_is_added_to_many() -> None:
    """A tenth member over 20 partitions takes two, and nothing else moves."""
    members = settled({"t": 20}, group(*(member(f"m{n}", ["t"]) for n in range(1, 10))))
    more = members | group(member("m0", ["t"]))
    given = share({"t": 20}, more)
    assert loads(given)["m0"] == 2
    assert moved(more, given) == 2


def test_same_subscriptions_and_a_leaver() -> None:
    """Members that all want 14 topics of different sizes keep theirs when one leaves."""
    topics = {f"t{n:02}": n for n in range(1, 15)}
    members = settled(topics, group(*(member(f"m{n}", topics) for n in range(9))))
    rest = without(members, "m5")
    assert moved(rest, share(topics, rest)) == 0


def test_half_of_the_members_leave_at_once() -> None:
    """Those who stay keep everything, and share what the others had evenly."""
    topics = {f"t{n:02}": 20 for n in range(40)}
    members = settled(topics, group(*(member(f"m{n:03}", topics) for n in range(100))))
    rest = without(members, *(f"m{n:03}" for n in range(0, 100, 2)))
    given = share(topics, rest)
    assert set(loads(given).values()) == {16}
    assert moved(rest, given) == 0


def test_many_leave_with_different_subscriptions() -> None:
    """With differing subscriptions, too, those who stay share fairly; few partitions move."""
    topics = {f"t{n:02}": 1 + n * 7 % 20 for n in range(40)}
    names = sorted(topics)
    members = settled(
        topics,
        group(
            *(
                member(f"m{n:03}", [t for i, t in enumerate(names) if (n * 31 + i * 17) % 3])
                for n in range(200)
            )
        ),
    )
    rest = without(members, *(f"m{n:03}" for n in range(0, 200, 4)))
    assert moved(rest, share(topics, rest)) <= 10


def test_everybody_is_replaced() -> None:
    """A group of nothing but newcomers starts afresh."""
    topics = {"t": 6}
    share(topics, group(member("a", ["t"])))
    assert loads(share(topics, group(member("b", ["t"]), member("c", ["t"])))) == {"b": 3, "c": 3}


def test_static_member_comes_back_under_another_id() -> None:
    """A restarted instance claims what it had, under a new id, and keeps it."""
    topics = {"t": 9}
    members = settled(topics, group(*(member(f"m{n}", ["t"]) for n in range(3))))
    had = members["m1"].owned
    again = without(members, "m1") | group(member("x", ["t"], flatten(had), 1, instance_id="i"))
    assert share(topics, again)["x"] == had


# Topics come, go and grow


def test_new_topic_is_shared_out() -> None:
    """A topic that appears is shared; what was assigned stays."""
    before = settled({"t0": 3}, group(member("a", TWO), member("b", TWO)))
    given = share({"t0": 3, "t1": 3}, before)
    assert loads(given) == {"a": 3, "b": 3}
    assert moved(before, given) == 0


def test_deleted_topic_is_forgotten() -> None:
    """What was owned of a topic that is gone is not given; the rest is still even."""
    before = settled({"t0": 3, "t1": 3}, group(member("a", TWO), member("b", TWO)))
    given = share({"t1": 3}, before)
    assert sorted(loads(given).values()) == [1, 2]
    assert moved(before, given) == 0


def test_the_only_topic_is_deleted() -> None:
    """With all topics gone everybody has nothing, and nothing fails."""
    before = settled({"t": 3}, group(member("a", ["t"])))
    assert share({}, before) == {"a": ()}


def test_topic_of_a_hundred_members_is_deleted() -> None:
    """One of two topics goes; many members with many partitions come out even."""
    topics = {"t0": 250, "t1": 250}
    before = settled(topics, group(*(member(f"m{n:03}", TWO) for n in range(100))))
    given = share({"t1": 250}, before)
    assert set(loads(given).values()) == {2, 3}


def test_topic_grows() -> None:
    """New partitions go to those that have fewest; nothing moves."""
    before = settled({"t": 5}, group(member("a", ["t"]), member("b", ["t"])))
    given = share({"t": 8}, before)
    assert loads(given) == {"a": 4, "b": 4}
    assert moved(before, given) == 0


def test_topic_shrinks() -> None:
    """Partitions that are no longer there are dropped from who claims them."""
    before = settled({"t": 8}, group(member("a", ["t"]), member("b", ["t"])))
    assert sum(loads(share({"t": 5}, before)).values()) == 5


def test_claim_to_what_never_was() -> None:
    """Absurd partition numbers in a claim cost nothing and change nothing."""
    absurd = [("t", 2**31 - 1), ("t", -1), ("u", 0), ("t", 0)]
    given = share({"t": 2}, group(member("a", ["t"], absurd, 1), member("b", ["t"])))
    assert pairs(given) == {"a": {("t", 0)}, "b": {("t", 1)}}


# Subscriptions change


def test_subscription_is_widened() -> None:
    """A member that wants a topic in addition takes its share of it."""
    topics = {"t0": 4, "t1": 4}
    before = settled(topics, group(member("a", TWO), member("b", ["t0"])))
    wider = before | group(member("b", TWO, flatten(before["b"].owned), 1))
    assert moved(wider, share(topics, wider)) == 0


def test_topic_is_given_up() -> None:
    """Who no longer wants a topic loses it to the others, and only that."""
    topics = {"t0": 4, "t1": 4}
    before = settled(topics, group(member("a", TWO), member("b", TWO)))
    narrower = before | group(member("b", ["t1"], flatten(before["b"].owned), 1))
    given = share(topics, narrower)
    assert pairs(given)["a"] >= all_of("t0", 4)
    assert loads(given) == {"a": 4, "b": 4}


def test_the_same_number_but_other_topics() -> None:
    """All members change to another topic at once: nothing old remains."""
    before = settled({"t0": 4, "t1": 4}, group(member("a", ["t0"]), member("b", ["t0"])))
    changed = {name: member(name, ["t1"], flatten(info.owned), 1) for name, info in before.items()}
    assert loads(share({"t0": 4, "t1": 4}, changed)) == {"a": 2, "b": 2}


def test_round_robin_would_be_poor_here() -> None:
    """Where dealing in turn gives one member four and another one, this comes out even."""
    topics = {"t0": 2, "t1": 1, "t2": 2, "t3": 1, "t4": 2}
    wanted = [["t0", "t1", "t2", "t3", "t4"], ["t0", "t2", "t4"], ["t0", "t2", "t4"], topics]
    members = group(*(member(f"m{n}", topics) for n, topics in enumerate(wanted)))
    assert set(loads(share(topics, members)).values()) == {2}


def test_uneven_claims_are_put_right() -> None:
    """What was owned very unevenly is evened out among those who want the same."""
    owned = [("t0", 0), ("t1", 0), ("t2", 0), ("t3", 0), ("t4", 0), ("t5", 0)]
    topics = dict.fromkeys((f"t{n}" for n in range(7)), 1)
    members = group(
        member("a", ["t0", "t1"], owned[:1], 1),
        member("b", ["t0", "t1", "t2", "t3"], owned[1:3], 1),
        member("c", ["t1", "t2", "t3", "t4", "t5", "t6"], owned[3:], 1),
    )
    assert sorted(loads(share(topics, members)).values()) == [2, 2, 3]


def test_evened_out_by_way_of_others() -> None:
    """With 3, 2 and 1 in a row where only neighbours share a topic, all come to 2."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1), ("t", 2)], 1),
        member("b", ["t", "u"], [("u", 0), ("u", 1)], 1),
        member("c", ["u"], [("u", 2)], 1),
    )
    given = share({"t": 3, "u": 3}, members)
    assert set(loads(given).values()) == {2}
    assert moved(members, given) == 2


def test_nobody_else_can_have_it() -> None:
    """A member keeps far more than the others if nobody else wants its topic."""
    members = group(member("a", ["big"]), member("b", ["t"]), member("c", ["t"]))
    assert loads(share({"big": 50, "t": 2}, members)) == {"a": 50, "b": 1, "c": 1}


# Stickiness


def test_nothing_happened_nothing_moves() -> None:
    """Asked again with what it answered, it answers the same."""
    topics = {f"t{n}": n + 1 for n in range(9)}
    members = group(
        *(member(f"m{n}", [t for t in topics if int(t[1]) % (n + 1)]) for n in range(5))
    )
    first = share(topics, members)
    assert share(topics, having(members, first)) == first


def test_order_of_members_does_not_matter() -> None:
    """Members that are told of in another order are given the same."""
    topics = {"t": 10, "u": 7}
    members = [member(f"m{n}", ["t", "u"][: 1 + n % 2], [("t", n)], 1) for n in range(6)]
    assert share(topics, group(*members)) == share(topics, group(*reversed(members)))


def test_stickiness_through_three_generations() -> None:
    """One leaves, comes back, and another one leaves: each time only the difference moves."""
    topics = {"t": 12}
    members = settled(topics, group(*(member(n, ["t"]) for n in "abcd")))
    fewer = having(without(members, "b"), share(topics, without(members, "b")), 2)
    back = fewer | group(member("b", ["t"]))
    given = share(topics, back)
    assert moved(back, given) == 3
    last = without(having(back, given, 3), "a")
    assert moved(last, share(topics, last)) == 0


def test_surrendered_partitions_come_from_all_topics() -> None:
    """What members give up to newcomers is spread over the topics, so newcomers are mixed, too."""
    topics = {f"t{n:02}": 40 for n in range(10)}
    members = settled(topics, group(*(member(f"m{n}", topics) for n in range(4))))
    given = share(topics, members | group(member("new", topics)))
    assert loads(given)["new"] == 80
    assert {len(entry.partitions) for entry in given["new"]} <= {6, 7, 8, 9, 10}
    assert len(given["new"]) == 10


# Claims that can't all be true


def test_newer_claim_wins() -> None:
    """A member that missed a rebalance loses what was given to another in the meantime."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 0), ("t", 2)], 2),
    )
    given = pairs(share({"t": 4}, members))
    assert given == {"a": {("t", 1), ("t", 3)}, "b": {("t", 0), ("t", 2)}}


def test_old_claim_counts_where_nobody_disputes_it() -> None:
    """An old claim is as good as a new one if nobody else claims the partition."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 2), ("t", 3)], 5),
    )
    assert moved(members, share({"t": 4}, members)) == 0


def test_claim_without_generation_is_the_oldest() -> None:
    """A member that can't tell a generation yields to one that can."""
    members = group(member("a", ["t"], [("t", 0)]), member("b", ["t"], [("t", 0)], 0))
    assert pairs(share({"t": 2}, members))["b"] == {("t", 0)}


def test_equally_old_claims_cancel_out() -> None:
    """What two claim in one generation counts for neither, so both keep the rest first."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1)], 1),
        member("b", ["t"], [("t", 0), ("t", 2), ("t", 3)], 1),
    )
    given = pairs(share({"t": 4}, members))
    assert given == {"a": {("t", 0), ("t", 1)}, "b": {("t", 2), ("t", 3)}}


def test_newer_claim_settles_a_dispute() -> None:
    """Two old claims cancel each other out only if there is no newer one."""
    members = group(
        member("a", ["t"], [("t", 0)], 1),
        member("b", ["t"], [("t", 0)], 1),
        member("c", ["t"], [("t", 0)], 2),
    )
    assert pairs(share({"t": 3}, members))["c"] == {("t", 0)}


@pytest.mark.parametrize("partitions", [3, 4, 7])
def test_all_claim_everything(partitions: int) -> None:
    """When all claim all in one generation it is as if nobody claimed anything."""
    claims = all_of("t", partitions)
    members = group(*(member(n, ["t"], claims, 3) for n in "abc"))
    afresh = group(*(member(n, ["t"]) for n in "abc"))
    assert share({"t": partitions}, members) == share({"t": partitions}, afresh)


def test_three_generations_mixed() -> None:
    """Each keeps what it was given last, whoever claims it from before."""
    members = group(
        member("a", ["t"], [("t", 0), ("t", 1), ("t", 4)], 1),
        member("b", ["t"], [("t", 0), ("t", 2), ("t", 3)], 2),
        member("c", ["t"], [("t", 3), ("t", 4), ("t", 5)], 3),
    )
    given = pairs(share({"t": 6}, members))
    assert loads(share({"t": 6}, members)) == {"a": 2, "b": 2, "c": 2}
    assert given["b"] == {("t", 0), ("t", 2)}
    assert given["c"] < {("t", 3), ("t", 4), ("t", 5)}


def test_claim_to_a_topic_no_longer_wanted() -> None:
    """A claim does not outlive the subscription, not even the newest one."""
    members = group(member("a", ["u"], [("t", 0)], 9), member("b", ["t"]))
    assert pairs(share({"t": 1, "u": 1}, members)) == {"a": {("u", 0)}, "b": {("t", 0)}}


def test_partition_named_twice_in_one_claim() -> None:
    """A member that names a partition twice does not dispute its own claim."""
    info = member("b", ["t"], [("t", 1)], 1)
    doubled = MemberInfo(
        member_id="b", topics=("t",), owned=(*info.owned, *info.owned), generation=1
    )
    assert pairs(share({"t": 2}, group(member("a", ["t"]), doubled)))["b"] == {("t", 1)}
