"""The offset checker: only offsets of deleted topics may be forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_protocol.journal import Event, OffsetsCommitted, OffsetsDeleted, TopicChanged
from coterie_testing.sim.invariants.offsets import OffsetChecker

P = ("t", 0)


class Committed:
    """A partition for which offset 7 was committed, and the commit acknowledged."""

    def __init__(self) -> None:
        self.offsets = OffsetChecker()
        self.violations: list[str] = []
        self.journal(changed("created"))
        self.commit(7)

    def journal(self, event: Event) -> None:
        """Journal an event."""
        self.violations += self.offsets.journalled(event)

    def commit(self, offset: int, *, acknowledge: bool = True) -> None:
        """Have a worker commit, and be told that it is stored."""
        self.offsets.commit_asked(P, offset)
        self.journal(
            OffsetsCommitted(group="g", member="m", generation=1, offsets={"t": {"0": offset}})
        )
        if acknowledge:
            self.offsets.commit_acknowledged(P, offset)

    def read(self, offset: int) -> str:
        """Have a worker be told where to go on; what is wrong with that."""
        self.violations += self.offsets.position_read(P, offset, "ann")
        return "; ".join(self.violations)


@pytest.fixture
def committed() -> Committed:
    """Return a committed."""
    return Committed()


def changed(change: str) -> TopicChanged:
    """The topic is not what it was."""
    return TopicChanged(topic="t", change=change, partitions_before=0, partitions=1)


FORGOTTEN = OffsetsDeleted(group="g", partitions={"t": (0,)}, how="topic_deleted")


def test_newest_offset_is_fine(committed: Committed) -> None:
    assert committed.read(7) == ""


def test_unacknowledged_commit_may_be_stored_or_not(committed: Committed) -> None:
    committed.offsets.commit_asked(P, 8)
    assert committed.read(8) == ""


def test_offset_that_was_never_committed(committed: Committed) -> None:
    assert committed.read(8) == "t[0]: offset 8 was never committed"


def test_acknowledged_offset_that_is_gone(committed: Committed) -> None:
    assert committed.read(6) == "t[0]: ann was told offset 6, but 7 was stored"


@pytest.mark.parametrize(("offset", "is_wrong"), [(6, True), (7, False), (8, False)])
def test_commit_that_undoes_an_acknowledged_one(
    committed: Committed, offset: int, *, is_wrong: bool
) -> None:
    committed.commit(offset, acknowledge=False)
    assert (
        any("a commit of m undoes a later one" in each for each in committed.violations) == is_wrong
    )


# -- with its topic --------------------------------------------------------------------------------


def test_journalled_deletion_explains_lost_offsets_once(committed: Committed) -> None:
    committed.journal(changed("deleted"))
    committed.journal(changed("created"))
    assert committed.read(0) == ""
    committed.commit(3)
    assert "but 3 was stored" in committed.read(0)


def test_commit_before_a_deletion_may_be_acknowledged_after_it(committed: Committed) -> None:
    committed.commit(9, acknowledge=False)
    committed.journal(changed("deleted"))
    committed.offsets.commit_acknowledged(P, 9)
    assert committed.read(0) == ""


def test_commit_may_be_journalled_while_the_topic_is_gone(committed: Committed) -> None:
    """The commit was decided before the deletion; the disk was slow."""
    committed.journal(changed("deleted"))
    committed.commit(9)
    committed.journal(changed("created"))
    assert committed.read(0) == ""


def test_commit_journalled_before_the_group_forgets_is_forgotten_too(committed: Committed) -> None:
    committed.journal(changed("deleted"))
    committed.journal(changed("created"))
    committed.commit(9)
    committed.journal(FORGOTTEN)
    assert committed.read(0) == ""


def test_group_forgets_offsets_of_a_topic_that_was_not_deleted(committed: Committed) -> None:
    committed.journal(FORGOTTEN)
    assert "with a topic that was not deleted" in committed.read(0)


def test_one_deletion_explains_forgetting_once(committed: Committed) -> None:
    committed.journal(changed("deleted"))
    committed.journal(FORGOTTEN)
    committed.journal(changed("created"))
    assert committed.read(0) == ""
    committed.journal(FORGOTTEN)
    assert "with a topic that was not deleted" in committed.read(0)


def test_topic_is_created_twice(committed: Committed) -> None:
    committed.journal(changed("created"))
    assert "a topic is created that exists" in committed.read(7)


# -- as an administrator hears ---------------------------------------------------------------------


def test_refused_deletion_explains_no_lost_offset(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    assert committed.read(0) == ""
    committed.violations += committed.offsets.deletion_refused("t", number)
    assert "but 7 was stored" in committed.read(7)


def test_refused_deletion_explains_no_forgetting(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    committed.journal(FORGOTTEN)
    committed.violations += committed.offsets.deletion_refused("t", number)
    assert "with a topic that was not deleted" in committed.read(0)


def test_refused_deletion_explains_nothing_later(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    committed.violations += committed.offsets.deletion_refused("t", number)
    assert "but 7 was stored" in committed.read(0)


def test_deletion_that_was_not_journalled_explains_lost_offsets(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    committed.offsets.deletion_done("t", number)
    assert committed.read(0) == ""
    committed.journal(changed("created"))
    assert committed.read(0) == ""


def test_late_answer_to_a_deletion_does_not_explain_later_losses(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    committed.journal(changed("deleted"))
    committed.journal(changed("created"))
    committed.commit(3)
    committed.offsets.deletion_done("t", number)
    assert "but 3 was stored" in committed.read(0)


# -- an answer that never comes --------------------------------------------------------------------


def in_doubt(committed: Committed) -> None:
    """A worker read the offset 0, and the deletion of the topic has no answer."""
    number = committed.offsets.deletion_asked("t")
    committed.offsets.deletion_unanswered("t", number)
    assert committed.read(0) == ""


@pytest.mark.parametrize("change", ["deleted", "created"])
def test_unanswered_deletion_is_confirmed_by_the_journal(committed: Committed, change: str) -> None:
    in_doubt(committed)
    committed.journal(changed(change))
    committed.journal(changed("created")) if change == "deleted" else None
    assert list(committed.offsets.check({"t"})) == []
    committed.commit(3)
    assert "but 3 was stored" in committed.read(0)


@pytest.mark.parametrize("exists", [True, False])
def test_unanswered_deletion_is_refuted_by_a_topic_that_exists(
    committed: Committed, *, exists: bool
) -> None:
    in_doubt(committed)
    assert bool(list(committed.offsets.check({"t"} if exists else ()))) == exists


def test_unanswered_deletion_that_was_journalled_is_not_in_doubt(committed: Committed) -> None:
    number = committed.offsets.deletion_asked("t")
    committed.journal(changed("deleted"))
    committed.offsets.deletion_unanswered("t", number)
    committed.journal(changed("created"))
    committed.commit(3)
    assert "but 3 was stored" in committed.read(0)


@pytest.mark.parametrize(
    ("then", "violation"),
    [
        (lambda committed: committed.journal(changed("created")), ""),
        (lambda committed: committed.offsets.creation_asked("t"), ""),
        (lambda _: None, "the journal says that topic t was deleted, but it exists"),
    ],
)
def test_journalled_deletion_has_to_be_true_in_the_end(
    committed: Committed, then: Callable[[Committed], None], violation: str
) -> None:
    committed.journal(changed("deleted"))
    then(committed)
    assert "; ".join(committed.offsets.check({"t"})) == violation
