"""The comparison itself: it names what brokers make up, and sees every other difference."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from coterie_protocol import messages as m
from tests.interop.differential.differences import Difference
from tests.interop.differential.script import Reply
from tests.interop.differential.transcript import ABSENT, ANY, Names, Transcript, at, compare

pytestmark = pytest.mark.interop

ON_PURPOSE = Difference("on-purpose", "Because.")


def _member_id(name: str) -> str:
    return f"{name}-{uuid.uuid4()}"


def _transcript(*values: Any) -> Transcript:
    transcript = Transcript()
    for number, value in enumerate(values):
        transcript.add(f"step {number}", value)
    return transcript


def _declare(transcript: Transcript, path: str, kafka: Any, coterie: Any) -> Transcript:
    step = transcript.steps[-1]
    Reply(step, None).differs(ON_PURPOSE, path, kafka=kafka, coterie=coterie)
    return transcript


def test_members_are_numbered_as_they_come() -> None:
    """An id gets the same name each time, and keeps what the broker put in front of it."""
    names, first, second = Names(), _member_id("a"), _member_id("b")
    assert [names.member(i) for i in (second, first, second)] == ["b-M1", "a-M2", "b-M1"]


def test_ids_of_the_scenario_stay() -> None:
    """What no broker made up is compared as it is."""
    names = Names()
    assert [names.member(i) for i in ("", "stranger", "a-M1")] == ["", "stranger", "a-M1"]


def test_order_of_members_does_not_count() -> None:
    """Two lists in any order are one, though their ids come to light only there."""

    def joined(*entries: tuple[str, bytes]) -> m.JoinGroupResponse:
        members = tuple(
            m.JoinGroupResponseMember(member_id=_member_id(name), metadata=metadata)
            for name, metadata in entries
        )
        return m.JoinGroupResponse(protocol_name="x", leader="", member_id="", members=members)

    one, other = joined(("a", b"1"), ("b", b"2")), joined(("b", b"2"), ("a", b"1"))
    assert Names().plain(one)["members"] == Names().plain(other)["members"]


def test_order_of_leaving_members_counts() -> None:
    """The answers of LeaveGroup are in the order of the request."""
    members = tuple(m.MemberResponse(member_id=i, group_instance_id=None) for i in ("b", "a"))
    plain = Names().plain(m.LeaveGroupResponse(members=members))
    assert [member["member_id"] for member in plain["members"]] == ["b", "a"]


def test_topics_and_addresses_are_named() -> None:
    """Topic ids and the broker's own port get names; the nil id is one of its own."""
    topics = tuple(
        m.MetadataResponseTopic(name=name, topic_id=topic_id, partitions=())
        for name, topic_id in (("a", uuid.uuid4()), ("b", uuid.UUID(int=0)))
    )
    broker = m.MetadataResponseBroker(node_id=1, host="h", port=1234)
    plain = Names(1234).plain(m.MetadataResponse(brokers=(broker,), topics=topics, cluster_id="x"))
    assert [topic["topic_id"] for topic in plain["topics"]] == ["T1", "NIL"]
    assert (plain["brokers"][0]["port"], plain["cluster_id"]) == ("PORT", "CLUSTER")


@pytest.mark.parametrize(
    ("kafka", "coterie", "path"),
    [
        ({"a": 1}, {"a": 2}, "a"),
        ({"a": [{"b": 1}]}, {"a": []}, "a[0].b"),
        ({"a": []}, {"a": None}, "a"),
        ({"a": b""}, {"a": ""}, "a"),
        ({"a": 0}, "silence", "a"),
    ],
)
def test_a_difference_is_found(kafka: Any, coterie: Any, path: str) -> None:
    """Whatever differs is told with its place and both values."""
    problems = compare(_transcript(kafka), _transcript(coterie))
    assert any(f"step 1, step 0: {path} is " in problem for problem in problems)


def test_what_is_equal_is_no_problem() -> None:
    """Equal transcripts agree."""
    value = {"a": [{"b": 1}, {}], "c": None}
    assert compare(_transcript(value, "parked"), _transcript(dict(value), "parked")) == []


def test_a_declared_difference_is_none() -> None:
    """A declared difference covers its place and what is below, and nothing else."""
    kafka, coterie = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4, "c": 5}, "d": 3}
    ours = _declare(_transcript(coterie), "a", kafka["a"], ANY)
    assert compare(_transcript(kafka), ours) == []
    ours.steps[0].value = coterie | {"d": 4}
    assert len(compare(_transcript(kafka), ours)) == 1


def test_a_declared_difference_that_is_none_any_more() -> None:
    """If both answer alike, the declaration is wrong, even if it allows anything."""
    ours = _declare(_transcript({"a": 1}), "a", ANY, ANY)
    (problem,) = compare(_transcript({"a": 1}), ours)
    assert problem.endswith("difference on-purpose at a is no more: both answer 1")


@pytest.mark.parametrize(("kafka", "coterie"), [(9, 2), (1, 9)])
def test_a_declared_difference_of_another_kind(kafka: Any, coterie: Any) -> None:
    """It is not enough to differ: both must answer as declared."""
    ours = _declare(_transcript({"a": 2}), "a", kafka, coterie)
    assert len(compare(_transcript({"a": 1}), ours)) == 1


def test_a_scenario_that_does_not_end() -> None:
    """What stopped a scenario is a problem, also when both were stopped."""
    kafka, coterie = _transcript(1), _transcript(1)
    kafka.failure = coterie.failure = "no answer"
    assert len(compare(kafka, coterie)) == 2


def test_transcripts_of_different_lengths() -> None:
    """A step too many is a problem, even if all the others agree."""
    assert compare(_transcript(1), _transcript(1, 2)) != []


def test_steps_that_are_not_the_same() -> None:
    """Once the scenarios went different ways, the rest is not compared."""
    kafka, coterie = _transcript(1, 2), _transcript(1, 3)
    kafka.steps[1].label = "another"
    (problem,) = compare(kafka, coterie)
    assert problem == "step 2: Kafka's is another, Coterie's is step 1"


def test_paths() -> None:
    """A path leads to a part, or to nothing."""
    value = {"a": [{"b": 1}]}
    assert at(value, "a[0].b") == 1
    assert at(value, "") is value
    assert all(at(value, path) is ABSENT for path in ("a[1]", "a[0].c", "a[0].b.c", "b"))
