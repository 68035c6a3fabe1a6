"""DeleteTopics: by name, by id, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import DeleteTopicsRequest, DeleteTopicState
from coterie_protocol.schema import NIL_UUID
from tests.server.topics.harness import CatalogueHarness, changed, new_topic, topic_id

INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
BY_NAME = range(6)


def state(name: str | None = None, number: int = 0) -> DeleteTopicState:
    """A topic by name, by the number of its id, by both or by neither."""
    return DeleteTopicState(name=name, topic_id=topic_id(number))


def results(reply: Any) -> list[tuple[str | None, int, int]]:
    """Name, number of the id, and error of each result."""
    return [(r.name, r.topic_id.int, r.error_code) for r in reply.responses]


def texts(reply: Any) -> list[str | None]:
    """The text of each result."""
    return [r.error_message for r in reply.responses]


def by_name(harness: CatalogueHarness, version: int, *names: str) -> Any:
    """Delete by name, in a version that has only names."""
    return harness.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=0), version)


def delete(harness: CatalogueHarness, *states: DeleteTopicState) -> Any:
    """Delete in version 6."""
    return harness.ask(DeleteTopicsRequest(topics=states, timeout_ms=0), 6)


@pytest.mark.parametrize("version", BY_NAME)
def test_topics_are_deleted_by_name(version: int) -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2, c=3)
    reply = by_name(harness, version, "c", "a")
    assert results(reply) == [("c", 0, 0), ("a", 0, 0)]
    assert harness.changes == [changed("c", "deleted", 3, 0), changed("a", "deleted", 1, 0)]
    harness.restart()
    assert harness.counts == {"b": 2}


def test_version_6_deletes_by_name_and_by_id() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2, c=3)
    reply = delete(harness, state(number=2), state("a"))
    assert sorted(results(reply)) == [("a", 1, 0), ("b", 2, 0)]
    assert texts(reply) == [None, None]
    assert harness.counts == {"c": 3}


@pytest.mark.parametrize("version", BY_NAME)
def test_unknown_names_are_told_and_the_others_go(version: int) -> None:
    harness = CatalogueHarness().with_topics(a=1)
    reply = by_name(harness, version, "nope", "a", "..")
    assert sorted(results(reply)) == [("..", 0, UNKNOWN), ("a", 0, 0), ("nope", 0, UNKNOWN)]
    assert harness.counts == {}


@pytest.mark.parametrize("version", BY_NAME)
def test_errors_have_words_from_version_5_on(version: int) -> None:
    text = "This server does not host this topic-partition." if version >= 5 else None
    assert texts(by_name(CatalogueHarness(), version, "nope")) == [text]


def test_an_unknown_id_is_told_without_a_name() -> None:
    reply = delete(CatalogueHarness().with_topics(a=1), state(number=99))
    assert results(reply) == [(None, 99, UNKNOWN_ID)]
    assert texts(reply) == ["This server does not host this topic ID."]


@pytest.mark.parametrize("version", BY_NAME)
def test_a_name_that_comes_twice_is_told_once_and_its_topic_stays(version: int) -> None:
    harness = CatalogueHarness().with_topics(a=1, b=1)
    reply = by_name(harness, version, "a", "b", "a")
    assert sorted(results(reply)) == [("a", 0, INVALID), ("b", 0, 0)]
    assert harness.counts == {"a": 1}


def test_an_id_that_comes_twice_is_told_once_and_its_topic_stays() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    reply = delete(harness, state(number=1), state(number=9), state(number=1), state(number=9))
    assert results(reply) == [(None, 1, INVALID), (None, 9, INVALID)]
    assert set(texts(reply)) == {"Duplicate topic id."}
    assert harness.counts == {"a": 1}


def test_a_topic_meant_by_name_and_id_is_told_once_and_stays() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=1)
    reply = delete(harness, state("a"), state("b"), state(number=1))
    assert sorted(results(reply)) == [("a", 1, INVALID), ("b", 2, 0)]
    text = "The provided topic name maps to an ID that was already supplied."
    assert text in texts(reply)
    assert harness.counts == {"a": 1}


def test_a_name_that_comes_twice_does_not_hold_up_an_id() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    reply = delete(harness, state("a"), state("a"), state(number=1))
    assert results(reply) == [("a", 0, INVALID), ("a", 1, 0)]
    assert harness.counts == {}


def test_an_entry_with_both_name_and_id_is_refused() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    reply = delete(harness, state("a", 1), state("a", 1), state("x", 9))
    assert results(reply) == [("a", 1, INVALID), ("a", 1, INVALID), ("x", 9, INVALID)]
    assert set(texts(reply)) == {"You may not specify both topic name and topic id."}
    assert harness.counts == {"a": 1}


def test_an_entry_with_neither_name_nor_id_is_refused() -> None:
    reply = delete(CatalogueHarness(), state(), state())
    assert results(reply) == [(None, 0, INVALID)] * 2
    assert set(texts(reply)) == {"Neither topic name nor id were specified."}


def test_a_deleted_lookalike_can_not_be_made_again_beside_the_other() -> None:
    harness = CatalogueHarness()
    harness.create(new_topic("a.b", 1), new_topic("a_b", 1))
    by_name(harness, 5, "a.b")
    (refused,) = harness.create(new_topic("a.b", 1))
    by_name(harness, 5, "a_b")
    (made,) = harness.create(new_topic("a.b", 1))
    assert (refused.error_code, made.error_code) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


def test_a_request_to_delete_no_topics_has_no_results() -> None:
    assert results(delete(CatalogueHarness())) == []


@pytest.mark.parametrize("version", BY_NAME)
def test_deletion_can_be_switched_off_in_every_version(version: int) -> None:
    harness = CatalogueHarness(delete_enabled=False).with_topics(a=1)
    reply = by_name(harness, version, "a", "nope", "a")
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else INVALID
    assert results(reply) == [("a", 0, code), ("nope", 0, code), ("a", 0, code)]
    assert (harness.counts, harness.changes) == ({"a": 1}, [])


def test_with_deletion_switched_off_ids_are_not_looked_up() -> None:
    harness = CatalogueHarness(delete_enabled=False).with_topics(a=1)
    reply = delete(harness, state(number=1), state("a"))
    code = ErrorCode.TOPIC_DELETION_DISABLED
    assert results(reply) == [(None, 1, code), ("a", NIL_UUID.int, code)]
