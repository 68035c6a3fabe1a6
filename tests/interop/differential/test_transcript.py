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


def test_member_ids_get_stable_names() -> None:
    names, first, second = Names(), _member_id("a"), _member_id("b")
    assert [names.member(i) for i in (second, first, second)] == ["b-M1", "a-M2", "b-M1"]


def test_ids_that_no_broker_made_are_compared_as_they_are() -> None:
    names = Names()
    assert [names.member(i) for i in ("", "stranger", "a-M1")] == ["", "stranger", "a-M1"]


def test_order_of_members_does_not_count() -> None:
    def joined(*entries: tuple[str, bytes]) -> m.JoinGroupResponse:
        members = tuple(
            m.JoinGroupResponseMember(member_id=_member_id(name), metadata=metadata)
            for name, metadata in entries
        )
        return m.JoinGroupResponse(protocol_name="x", leader="", member_id="", members=members)

    one, other = joined(("a", b"1"), ("b", b"2")), joined(("b", b"2"), ("a", b"1"))
    assert Names().plain(one)["members"] == Names().plain(other)["members"]


def test_order_of_leaving_members_counts() -> None:
    members = tuple(m.MemberResponse(member_id=i, group_instance_id=None) for i in ("b", "a"))
    plain = Names().plain(m.LeaveGroupResponse(members=members))
    assert [member["member_id"] for member in plain["members"]] == ["b", "a"]


def test_topic_ids_and_ports_get_names() -> None:
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
def test_difference_is_reported_with_its_place_and_values(
    kafka: Any, coterie: Any, path: str
) -> None:
    problems = compare(_transcript(kafka), _transcript(coterie))
    assert any(f"step 1, step 0: {path} is " in problem for problem in problems)


def test_equal_transcripts_have_no_problems() -> None:
    value = {"a": [{"b": 1}, {}], "c": None}
    assert compare(_transcript(value, "parked"), _transcript(dict(value), "parked")) == []


def test_declared_difference_covers_its_place_and_below() -> None:
    kafka, coterie = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4, "c": 5}, "d": 3}
    ours = _declare(_transcript(coterie), "a", kafka["a"], ANY)
    assert compare(_transcript(kafka), ours) == []
    ours.steps[0].value = coterie | {"d": 4}
    assert len(compare(_transcript(kafka), ours)) == 1


def test_declared_difference_that_does_not_show_is_a_problem() -> None:
    ours = _declare(_transcript({"a": 1}), "a", ANY, ANY)
    (problem,) = compare(_transcript({"a": 1}), ours)
    assert problem.endswith("difference on-purpose at a is no more: both answer 1")


@pytest.mark.parametrize(("kafka", "coterie"), [(9, 2), (1, 9)])
def test_difference_other_than_declared_is_a_problem(kafka: Any, coterie: Any) -> None:
    ours = _declare(_transcript({"a": 2}), "a", kafka, coterie)
    assert len(compare(_transcript({"a": 1}), ours)) == 1


def test_stopped_scenario_is_a_problem() -> None:
    kafka, coterie = _transcript(1), _transcript(1)
    kafka.failure = coterie.failure = "no answer"
    assert len(compare(kafka, coterie)) == 2


def test_different_lengths_are_a_problem() -> None:
    assert compare(_transcript(1), _transcript(1, 2)) != []


def test_steps_are_compared_until_scenarios_diverge() -> None:
    kafka, coterie = _transcript(1, 2), _transcript(1, 3)
    kafka.steps[1].label = "another"
    (problem,) = compare(kafka, coterie)
    assert problem == "step 2: Kafka's is another, Coterie's is step 1"


def test_path_leads_to_a_part_or_to_nothing() -> None:
    value = {"a": [{"b": 1}]}
    assert at(value, "a[0].b") == 1
    assert at(value, "") is value
    assert all(at(value, path) is ABSENT for path in ("a[1]", "a[0].c", "a[0].b.c", "b"))
