"""What may be forgotten: offsets of a topic whose deletion is known, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_protocol.journal import Event, OffsetsCommitted, OffsetsDeleted, TopicChanged
from coterie_testing.sim.offsets import Offsets

P = ("t", 0)


class Scene:
    """A partition of a topic, of which offset 7 was committed and confirmed."""

    def __init__(self) -> None:
        self.offsets = Offsets()
        self.blame: list[str] = []
        self.hear(changed("created"))
        self.commit(7)

    def hear(self, event: Event) -> None:
        """Have the journal tell something."""
        self.blame += self.offsets.hear(event)

    def commit(self, offset: int, *, confirm: bool = True) -> None:
        """Have a worker commit, and be told that it is stored."""
        self.offsets.ask(P, offset)
        self.hear(
            OffsetsCommitted(group="g", member="m", generation=1, offsets={"t": {"0": offset}})
        )
        if confirm:
            self.offsets.confirm(P, offset)

    def read(self, offset: int) -> str:
        """Have a worker be told where to go on; what is wrong with that."""
        self.blame += self.offsets.read(P, offset, "ann")
        return "; ".join(self.blame)


@pytest.fixture
def scene() -> Scene:
    """Return a scene."""
    return Scene()


def changed(change: str) -> TopicChanged:
    """The topic is not what it was."""
    return TopicChanged(topic="t", change=change, partitions_before=0, partitions=1)


FORGOTTEN = OffsetsDeleted(group="g", partitions={"t": (0,)}, how="topic_deleted")


def test_what_was_stored_is_there(scene: Scene) -> None:
    """Nothing is wrong with the newest offset."""
    assert scene.read(7) == ""


def test_untold_commit_may_be_there(scene: Scene) -> None:
    """A commit that was asked for may be stored, whoever was told."""
    scene.offsets.ask(P, 8)
    assert scene.read(8) == ""


def test_offset_from_nowhere(scene: Scene) -> None:
    """Nobody asked for that one."""
    assert scene.read(8) == "t[0]: offset 8 was never committed"


def test_lost_offset(scene: Scene) -> None:
    """It was confirmed and is not there."""
    assert scene.read(6) == "t[0]: ann was told offset 6, but 7 was stored"


@pytest.mark.parametrize(("offset", "is_wrong"), [(6, True), (7, False), (8, False)])
def test_commit_that_undoes_a_later_one(scene: Scene, offset: int, *, is_wrong: bool) -> None:
    """What somebody was told is stored is not written over with less, whoever sees it next."""
    scene.commit(offset, confirm=False)
    assert any("a commit of m undoes a later one" in each for each in scene.blame) == is_wrong


# -- with its topic --------------------------------------------------------------------------------


def test_deletion_that_the_journal_tells(scene: Scene) -> None:
    """The offsets go with the topic, and those of the next topic of its name count again."""
    scene.hear(changed("deleted"))
    scene.hear(changed("created"))
    assert scene.read(0) == ""
    scene.commit(3)
    assert "but 3 was stored" in scene.read(0)


def test_commit_from_before_is_confirmed_after(scene: Scene) -> None:
    """The worker hears that its commit is stored when the topic has gone."""
    scene.commit(9, confirm=False)
    scene.hear(changed("deleted"))
    scene.offsets.confirm(P, 9)
    assert scene.read(0) == ""


def test_commit_is_told_of_while_the_topic_is_gone(scene: Scene) -> None:
    """It was decided before; the disk was slow."""
    scene.hear(changed("deleted"))
    scene.commit(9)
    scene.hear(changed("created"))
    assert scene.read(0) == ""


def test_commit_is_told_of_before_the_group_forgets(scene: Scene) -> None:
    """The group's own order counts: what it forgets came before."""
    scene.hear(changed("deleted"))
    scene.hear(changed("created"))
    scene.commit(9)
    scene.hear(FORGOTTEN)
    assert scene.read(0) == ""


def test_group_forgets_without_reason(scene: Scene) -> None:
    """Nobody deleted the topic."""
    scene.hear(FORGOTTEN)
    assert "with a topic that was not deleted" in scene.read(0)


def test_group_forgets_twice(scene: Scene) -> None:
    """One deletion explains one."""
    scene.hear(changed("deleted"))
    scene.hear(FORGOTTEN)
    scene.hear(changed("created"))
    assert scene.read(0) == ""
    scene.hear(FORGOTTEN)
    assert "with a topic that was not deleted" in scene.read(0)


def test_topic_is_made_twice(scene: Scene) -> None:
    """It was there, by the journal, and nobody wanted it gone."""
    scene.hear(changed("created"))
    assert "a topic is made that is there" in scene.read(7)


# -- as an administrator hears ---------------------------------------------------------------------


def test_deletion_that_was_refused_excuses_nothing(scene: Scene) -> None:
    """The offset was lost while the answer was on its way, and the answer is no."""
    number = scene.offsets.deletion_asked("t")
    assert scene.read(0) == ""
    scene.blame += scene.offsets.deletion_refused("t", number)
    assert "but 7 was stored" in scene.read(7)


def test_group_that_forgot_for_a_refused_deletion(scene: Scene) -> None:
    """The same, as the group itself tells it."""
    number = scene.offsets.deletion_asked("t")
    scene.hear(FORGOTTEN)
    scene.blame += scene.offsets.deletion_refused("t", number)
    assert "with a topic that was not deleted" in scene.read(0)


def test_deletion_that_was_refused_before_anything_was_read(scene: Scene) -> None:
    """From then on there is no excuse at all."""
    number = scene.offsets.deletion_asked("t")
    scene.blame += scene.offsets.deletion_refused("t", number)
    assert "but 7 was stored" in scene.read(0)


def test_deletion_that_only_the_administrator_was_told_of(scene: Scene) -> None:
    """The node was killed before the journal had it."""
    number = scene.offsets.deletion_asked("t")
    scene.offsets.deletion_done("t", number)
    assert scene.read(0) == ""
    scene.hear(changed("created"))
    assert scene.read(0) == ""


def test_administrator_hears_late(scene: Scene) -> None:
    """What was committed after the deletion is not forgotten as its answer comes."""
    number = scene.offsets.deletion_asked("t")
    scene.hear(changed("deleted"))
    scene.hear(changed("created"))
    scene.commit(3)
    scene.offsets.deletion_done("t", number)
    assert "but 3 was stored" in scene.read(0)


# -- an answer that never comes --------------------------------------------------------------------


def in_doubt(scene: Scene) -> None:
    """Somebody was told the offset 0, and nobody that the topic was deleted."""
    number = scene.offsets.deletion_asked("t")
    scene.offsets.deletion_unanswered("t", number)
    assert scene.read(0) == ""


@pytest.mark.parametrize("change", ["deleted", "created"])
def test_doubt_that_the_journal_resolves(scene: Scene, change: str) -> None:
    """It did happen, as it tells, or as the topic is made anew; from then on nothing is excused."""
    in_doubt(scene)
    scene.hear(changed(change))
    scene.hear(changed("created")) if change == "deleted" else None
    assert list(scene.offsets.check({"t"})) == []
    scene.commit(3)
    assert "but 3 was stored" in scene.read(0)


@pytest.mark.parametrize("is_there", [True, False])
def test_doubt_at_the_end(scene: Scene, *, is_there: bool) -> None:
    """A topic that is there was not deleted."""
    in_doubt(scene)
    assert bool(list(scene.offsets.check({"t"} if is_there else ()))) == is_there


def test_answer_that_is_lost_after_the_journal_told(scene: Scene) -> None:
    """There is no doubt then."""
    number = scene.offsets.deletion_asked("t")
    scene.hear(changed("deleted"))
    scene.offsets.deletion_unanswered("t", number)
    scene.hear(changed("created"))
    scene.commit(3)
    assert "but 3 was stored" in scene.read(0)


@pytest.mark.parametrize(
    ("then", "complaint"),
    [
        (lambda scene: scene.hear(changed("created")), ""),
        (lambda scene: scene.offsets.creation_asked("t"), ""),
        (lambda _: None, "the journal tells that topic t was deleted, and it is there"),
    ],
)
def test_deletion_that_did_not_last(
    scene: Scene, then: Callable[[Scene], None], complaint: str
) -> None:
    """What the journal tells of a topic is what is there in the end."""
    scene.hear(changed("deleted"))
    then(scene)
    assert "; ".join(scene.offsets.check({"t"})) == complaint
