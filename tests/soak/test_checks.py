"""The checks of a soak, on records that were doctored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie_protocol.journal import (
    GroupRecovered,
    MemberGone,
    MemberJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.soak.checks import CHECKS, breaches, waits_by_fault
from tests.soak.records import Fault, JournalLines, Story
from tests.soak.stories import (
    FIRST,
    GROUP,
    SECOND,
    acked,
    assigned,
    journalled,
    read,
    revoked,
    told,
    well,
)
from tests.soak.summary import summary

UNHEARD = "5b0fcaa8-edb6-403c-ac6b-c5dc1137b334"
ANOTHER = "0712e06d-373c-40ab-96c4-1aedf793bfe6"


def found(story: Story) -> dict[str, list[str]]:
    """What is amiss, by the check that found it."""
    return {name: list(said) for name, said in breaches(story).items() if said}


def started(generation: int, cause: str) -> RebalanceStarted:
    return RebalanceStarted(
        group=GROUP,
        generation=generation,
        from_state="Stable",
        cause=cause,
        detail="as a test wants it",
        awaited=(),
        deadline=None,
    )


def completed(generation: int) -> RebalanceCompleted:
    return RebalanceCompleted(
        group=GROUP,
        generation=generation,
        cause="member_joined",
        assigned=None,
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=1,
        total_ms=1,
    )


def recovered(generation: int, *members: str) -> GroupRecovered:
    return GroupRecovered(group=GROUP, state="Stable", generation=generation, members=members)


def joined(member: str) -> MemberJoined:
    return MemberJoined(
        group=GROUP,
        member=member,
        instance=None,
        client_id=SECOND,
        host="/127.0.0.1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocols=("range",),
        topics=None,
    )


def gone(how: str) -> MemberGone:
    return MemberGone(
        group=GROUP,
        member="m",
        instance=None,
        host="/127.0.0.1",
        how=how,
        silent_ms=45_000,
        session_timeout_ms=45_000,
    )


def test_nothing_is_amiss_where_all_is_well() -> None:
    story = well(journal=[journalled(1.0, "1", started(1, "member_joined"))])
    assert found(story) == {}


# -- commits ---------------------------------------------------------------------------------------


def test_store_that_ends_behind_what_was_acknowledged() -> None:
    said = found(well(final={0: 39}))
    assert said == {
        "acknowledged commits lost": [
            f"{GROUP}, partition 0: the store in the end found 39 after 40 was acknowledged"
        ]
    }


def test_store_that_has_forgotten_a_partition() -> None:
    story = well()
    bare = replace(story, final={(GROUP, 0): 40})
    assert list(found(bare)) == ["acknowledged commits lost"]


def test_owner_that_begins_behind_what_was_acknowledged() -> None:
    story = well(read(20.5, SECOND, {0: 18}))
    (said,) = found(story)["acknowledged commits lost"]
    assert said == f"{GROUP}, partition 0: {SECOND} found 18 after 19 was acknowledged"


def test_owner_that_begins_beyond_what_was_sent() -> None:
    story = well(read(20.5, SECOND, {0: 20}))
    (said,) = found(story)["acknowledged commits lost"]
    assert said == f"{GROUP}, partition 0: {SECOND} found 20, where at most 19 was sent"


def test_commit_that_failed_may_be_kept_or_not() -> None:
    failed = told(41.9, FIRST, "failed", asked_s=41.5, offsets={0: 41})
    assert found(well(failed)) == {}
    assert found(well(failed, final={0: 41})) == {}
    assert list(found(well(failed, final={0: 42}))) == ["acknowledged commits lost"]
    sent = replace(failed, what="sent")  # its program ended before it was answered
    assert found(well(sent, final={0: 41})) == {}


def test_commit_that_was_acknowledged_while_it_was_read() -> None:
    # It was sent at 20.0 and acknowledged at 20.01: who asked before that may see either.
    assert found(well(read(20.005, SECOND, {0: 18}))) == {}
    assert found(well(read(20.005, SECOND, {0: 19}))) == {}


# -- owners ----------------------------------------------------------------------------------------


def test_partition_that_was_given_to_two() -> None:
    story = well(assigned(41.5, SECOND, 0, token=2))
    (said,) = found(story)["two owners at once"]
    assert said == (
        f"{GROUP}, partition 0: {SECOND} was given it at 41.500, and {FIRST} had it until inf"
    )


def test_partition_that_was_handed_over() -> None:
    story = well(revoked(41.4, FIRST, 0), assigned(41.5, SECOND, 0, token=2))
    assert found(story) == {}


def test_member_that_left_owns_nothing() -> None:
    story = well(told(41.4, FIRST, "left"), assigned(41.5, SECOND, 0, token=2))
    assert found(story) == {}


def test_client_that_finishes_a_rebalance_when_it_has_left() -> None:
    back = replace(assigned(41.6, FIRST, 0, token=3), life=2)
    story = well(
        told(41.4, FIRST, "left"),
        assigned(41.45, FIRST, 0),
        assigned(41.5, SECOND, 0, token=2),
        revoked(41.55, SECOND, 0),
        back,
        acked(41.7, FIRST, {0: 41}),
        final={0: 41},
    )
    assert found(story) == {}


def test_token_that_does_not_grow() -> None:
    story = well(revoked(41.4, FIRST, 0), assigned(41.5, SECOND, 0, token=1))
    (said,) = found(story)["two owners at once"]
    assert said == f"{GROUP}, partition 0: {SECOND} has token 1 after 1 of {FIRST}"


def test_commit_of_a_former_owner() -> None:
    moved = (revoked(41.2, FIRST, 0), assigned(41.3, SECOND, 0, token=2))
    assert found(well(*moved)) == {}
    story = well(*moved, acked(41.4, FIRST, {0: 41}), final={0: 41})
    (said,) = found(story)["commits of former owners"]
    assert said == (
        f"{GROUP}, partition 0: a commit that {FIRST} sent at 41.400 was acknowledged,"
        f" though {SECOND} had it"
    )


# -- generations and rebalances --------------------------------------------------------------------


def test_member_whose_generation_goes_back() -> None:
    story = well(
        told(5.0, FIRST, "generation", generation=4), told(6.0, FIRST, "generation", generation=3)
    )
    assert found(story) == {"generations that went back": [f"{FIRST} went from generation 4 to 3"]}


def test_generation_that_two_nodes_completed() -> None:
    lines = [journalled(1.0, "1", completed(4)), journalled(1.2, "2", completed(4))]
    (said,) = found(well(journal=lines))["generations that went back"]
    assert said == f"{GROUP}: after generation 4 was complete on 1, 2 completed 4"


def test_node_that_recovers_a_former_generation() -> None:
    lines = [journalled(1.0, "1", completed(4)), journalled(9.0, "2", recovered(3))]
    (said,) = found(well(journal=lines))["generations that went back"]
    assert said.endswith("2 went on in 3 (group_recovered)")


def test_node_that_recovers_the_same_generation() -> None:
    lines = [
        journalled(1.0, "1", completed(4)),
        journalled(9.0, "2", recovered(4)),
        journalled(9.1, "2", started(4, "member_joined")),
        journalled(9.2, "2", completed(5)),
    ]
    assert found(well(journal=lines, is_restless=True)) == {}


def test_fail_over_that_starts_a_rebalance() -> None:
    lines = [journalled(10.0, "2", started(1, "member_joined"))]
    (said,) = found(well(journal=lines))["rebalances without need"]
    assert said.startswith(f"{GROUP} rebalanced on 2")


def test_rebalance_that_begins_anew_after_a_fail_over_in_its_second_phase() -> None:
    anew = replace(started(2, "subscription_changed"), from_state="CompletingRebalance")
    lines = [journalled(9.9, "2", replace(recovered(2), state="CompletingRebalance"))]
    assert found(well(journal=[*lines, journalled(10.0, "2", anew)], is_restless=True)) == {}
    for other in (
        replace(anew, generation=3),
        replace(anew, from_state="Stable"),
        replace(anew, cause="topic_changed"),
    ):
        story = well(journal=[*lines, journalled(10.0, "2", other)], is_restless=True)
        assert "rebalances without need" in found(story)


@pytest.mark.parametrize("cause", ["session_expired", "subscription_changed", "topic_changed"])
def test_restless_group_rebalances_for_its_own_reasons_only(cause: str) -> None:
    lines = [journalled(10.0, "2", started(1, cause))]
    assert list(found(well(journal=lines, is_restless=True))) == ["rebalances without need"]


def test_session_that_ended() -> None:
    story = well(journal=[journalled(10.0, "2", gone("session_expired"))])
    assert list(found(story)) == ["sessions that ended"]
    assert found(well(journal=[journalled(10.0, "2", gone("left"))])) == {}


def test_session_of_a_member_that_left_unheard() -> None:
    expired = replace(gone("session_expired"), member=f"{SECOND}-{UNHEARD}")
    lines = [journalled(10.0, "2", expired), journalled(10.0, "2", started(1, "session_expired"))]
    assert list(found(well(journal=lines, is_restless=True))) == [
        "rebalances without need",
        "sessions that ended",
    ]
    came_back = replace(told(41.5, SECOND, "left"), life=2)
    assert found(well(came_back, journal=lines, is_restless=True)) == {}


def test_wait_for_a_member_that_left_unheard() -> None:
    fault = Fault("kill", "node 1", 10.5, 14.0)
    came_back = replace(told(41.5, SECOND, "left"), life=2)
    anew = joined(f"{SECOND}-{ANOTHER}")
    lines = [
        journalled(11.0, "2", anew),
        journalled(12.0, "2", recovered(1, f"{SECOND}-{UNHEARD}")),
    ]
    story = without_acks(well(came_back, faults=[fault], is_restless=True), 10.5, 20.0)
    assert list(found(story)) == ["groups not served in time"]
    assert found(replace(story, journal=JournalLines(tuple(lines)))) == {}
    # It is the one that came back.
    lines[1] = journalled(12.0, "2", recovered(1, f"{SECOND}-{ANOTHER}"))
    story = replace(story, journal=JournalLines(tuple(lines)))
    assert list(found(story)) == ["groups not served in time"]


def test_kafkajs_joins_anew_by_itself() -> None:
    lines = [
        journalled(10.0, "2", gone("session_expired")),
        journalled(10.0, "2", started(1, "member_joined")),
    ]
    story = well(journal=lines)
    group = replace(story.groups[0], libraries={FIRST: "kafkajs", SECOND: "kafkajs"})
    assert found(replace(story, groups=(group,))) == {}


def test_journal_with_a_gap() -> None:
    story = replace(well(), journal=JournalLines((), ("it lacks lines",)))
    assert found(story) == {"journals that are not whole": ["it lacks lines"]}


# -- service ---------------------------------------------------------------------------------------


def without_acks(story: Story, since_s: float, until_s: float) -> Story:
    kept = [r for r in story.records if r.what != "acked" or not since_s < r.at_s < until_s]
    return replace(story, records=tuple(kept))


def test_wait_counts_from_the_fault() -> None:
    fault = Fault("kill", "node 1", 10.5, 14.0)
    (waits,) = waits_by_fault(without_acks(well(faults=[fault]), 10.5, 14.0))
    assert waits == {GROUP: pytest.approx(14.01 - 10.5)}


def test_wait_that_goes_on_over_the_next_fault_counts_for_the_first() -> None:
    faults = [Fault("kill", "node 1", 10.5, 11.0), Fault("drain", "node 2", 13.5, 14.0)]
    first, second = waits_by_fault(without_acks(well(faults=faults), 10.5, 16.0))
    assert first == {GROUP: pytest.approx(16.01 - 10.5)}
    assert second == {GROUP: pytest.approx(1.0)}


def test_group_that_is_not_served_in_time() -> None:
    fault = Fault("kill", "node 1", 10.5, 14.0)
    story = well(faults=[fault])
    assert found(without_acks(story, 10.5, 18.0)) == {}
    (said,) = found(without_acks(story, 10.5, 20.0))["groups not served in time"]
    assert said == (
        f"{GROUP} had no commit acknowledged for 9.5 s after kill of node 1 at 10.5;"
        " 8.0 s are allowed"
    )


def test_pause_is_allowed_to_last() -> None:
    fault = Fault("long pause", "node 1", 10.5, 14.5, away_s=4.0)
    assert found(without_acks(well(faults=[fault]), 10.5, 20.0)) == {}


def test_group_that_is_never_served_again() -> None:
    fault = Fault("kill", "node 1", 10.5, 14.0)
    story = without_acks(well(faults=[fault]), 10.5, 100.0)
    assert "groups not served in time" in found(story)


def test_member_that_waits_while_others_are_served() -> None:
    """Commits of librdkafka once did, for up to a minute, as each coordinator was given up."""
    fault = Fault("long pause", "node 1", 10.5, 14.5, away_s=4.0)
    in_time = replace(told(21.0, SECOND, "acked", offsets={1: 1}), asked_s=10.0)
    assert found(well(in_time, faults=[fault])) == {}
    (said,) = found(well(replace(in_time, at_s=22.5), faults=[fault]))["members answered late"]
    assert said == (
        f"{SECOND} waited 12.5 s for an answer (acked) to what it asked at 10.0; 12.0 s are allowed"
    )
    assert "members answered late" in found(well(replace(in_time, at_s=18.5)))


def test_member_that_waits_to_the_end() -> None:
    sent = replace(told(30.005, SECOND, "sent", offsets={1: 1}), asked_s=30.005)
    (said,) = found(well(sent))["members answered late"]
    assert "answer (sent) to what it asked at 30.0" in said
    assert found(well(sent, replace(sent, what="acked", at_s=30.1))) == {}


def test_summary_tells_the_verdict_of_each_check() -> None:
    fault = Fault("kill", "node 1", 10.5, 14.0)
    story = well(faults=[fault], final={0: 39})
    lines = summary(story, breaches(story)).splitlines()
    assert "2 members (2 coterie) in 1 groups, 0 of them restless, for 0.7 minutes" in lines
    assert "BAD  acknowledged commits lost: 1" in lines
    assert [line for line in lines if line.startswith("ok ")] == [
        f"ok   {name}: 0" for name in list(CHECKS)[1:]
    ]
