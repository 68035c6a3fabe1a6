"""The witness: each rule that is broken is seen, and who can't know better is excused."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie_client import Partition
from coterie_client.membership.events import CoordinatorLost, GroupJoined
from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    MemberGone,
    MemberReplaced,
    OwnershipConflict,
)
from coterie_testing.sim.wire import Wire
from coterie_testing.sim.witness import WatchfulEye
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler


@dataclass(frozen=True)
class Share:
    """A partition as a worker has it."""

    token: int = 1
    topic: str = "t"
    number: int = 0
    is_owned: bool = True

    @property
    def key(self) -> tuple[str, int]:
        """What it is the partition of."""
        return self.topic, self.number


@dataclass(eq=False)
class Somebody:
    """A worker, as far as the witness looks at it."""

    name: str
    instance: str | None = None
    owned: list[Share] = field(default_factory=list)
    group_id: str = "g"
    is_running: bool = True

    @property
    def options(self) -> SimpleNamespace:
        """How it is set up."""
        return SimpleNamespace(instance=self.instance, session_timeout=10.0)

    @property
    def group(self) -> SimpleNamespace:
        """Its group."""
        return SimpleNamespace(owned=self.owned, member_id=self.name)


class Scene:
    """A witness, and somebody to look at."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.eye = WatchfulEye(self.scheduler)
        self.ann, self.bob = Somebody("ann"), Somebody("bob")
        #: The members, by the journal.
        self.members = {"ann", "bob"}
        self.eye.__dict__["_story"].members = lambda _: self.members

    def do(self, what: str, who: Somebody, share: Share, *offset: int) -> None:
        """Have somebody do something to a partition."""
        getattr(self.eye, what)(cast(Worker, who), cast(Partition, share), *offset)

    def joined(self, who: Somebody, generation: int = 0) -> None:
        """Have somebody's client tell that it is in a generation."""
        event = GroupJoined(
            member_id=who.name, generation=generation, is_leader=False, assignor="range"
        )
        self.eye.happened(cast(Worker, who), event)

    def journal(self, event: Event) -> None:
        """Have the journal tell something."""
        self.eye.journalled(self.scheduler.now_ms, event, Wire())

    @property
    def blame(self) -> str:
        """What was seen first; empty if all was well."""
        return str(self.eye.violation or "")


@pytest.fixture
def scene() -> Scene:
    """Return a scene of two workers."""
    return Scene()


def gone(member: str, how: str) -> MemberGone:
    """A member is gone."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="",
        how=how,
        silent_ms=10_000,
        session_timeout_ms=10_000,
    )


# -- two owners ------------------------------------------------------------------------------------


def test_two_at_once_are_seen(scene: Scene) -> None:
    """Nobody may begin while another is at it."""
    scene.do("started", scene.ann, Share(1))
    scene.do("started", scene.bob, Share(2))
    assert "two workers: bob and ann" in scene.blame


@pytest.mark.parametrize("how", ["ended", "died"])
def test_one_after_the_other_is_fine(scene: Scene, how: str) -> None:
    """Somebody may begin when the former owner has ended its work, or died."""
    scene.do("started", scene.ann, Share(1))
    if how == "ended":
        scene.do("ended", scene.ann, Share(1))
    else:
        scene.eye.died(cast(Worker, scene.ann))
    scene.do("started", scene.bob, Share(2))
    assert scene.blame == ""


def test_paused_owner_is_excused_until_it_goes_on(scene: Scene) -> None:
    """A process that was stopped can't know, and does at once what was due when it goes on."""
    scene.do("started", scene.ann, Share(1))
    scene.eye.excuses.paused(cast(Worker, scene.ann))
    scene.do("started", scene.bob, Share(2))
    scene.scheduler.run(20.0)
    scene.eye.excuses.went_on(cast(Worker, scene.ann))
    scene.do("touched", scene.ann, Share(1), 1)
    assert scene.blame == ""
    assert scene.eye.counts["fenced acts"] == 1


def test_a_moment_does_not_last(scene: Scene) -> None:
    """Who works with an old token any time after it went on is to blame."""
    scene.do("started", scene.ann, Share(1))
    scene.eye.excuses.paused(cast(Worker, scene.ann))
    scene.do("started", scene.bob, Share(2))
    scene.eye.excuses.went_on(cast(Worker, scene.ann))
    scene.scheduler.run(0.001)
    scene.do("touched", scene.ann, Share(1), 1)
    assert "ann works on it with an old token" in scene.blame


def replaced(former: str) -> MemberReplaced:
    """Another process took over a name."""
    return MemberReplaced(
        group="g",
        instance="i",
        member="x",
        host="",
        former_member=former,
        former_host="",
        silent_ms=0,
    )


def recovered(*members: str) -> GroupRecovered:
    """A coordinator read the group back."""
    return GroupRecovered(group="g", state="Stable", generation=0, members=members)


def overlap(scene: Scene, *events: Event, after_s: float = 0.0) -> str:
    """Have bob begin what ann is at, after the journal told something; what is wrong with that."""
    scene.joined(scene.ann)
    scene.do("started", scene.ann, Share(1))
    scene.eye.__dict__["_story"].hear = lambda *_: ()
    for event in events:
        scene.journal(event)
    scene.scheduler.run(after_s)
    scene.do("started", scene.bob, Share(2))
    return scene.blame


def test_replaced_owner_is_excused(scene: Scene) -> None:
    """Who lost its name learns it a little later."""
    assert overlap(scene, replaced("ann")) == ""


def test_removed_owner_is_excused(scene: Scene) -> None:
    """Whom an administrator removed learns it a little later."""
    scene.eye.excuses.removal_asked("ann")
    assert overlap(scene, gone("ann", "left")) == ""


def test_nobody_is_excused_who_left_by_itself(scene: Scene) -> None:
    """A member ends its work before it leaves."""
    assert "two workers" in overlap(scene, gone("ann", "left"))


def test_nobody_is_excused_before_it_is_out(scene: Scene) -> None:
    """A removal that was asked for and has not happened is no reason to share."""
    scene.eye.excuses.removal_asked("ann")
    assert "two workers" in overlap(scene)


def test_excuse_ends_with_the_lease(scene: Scene) -> None:
    """Without an answer from the coordinator nobody goes on for longer than nine tenths of it."""
    scene.eye.excuses.removal_asked("ann")
    assert "two workers" in overlap(scene, gone("ann", "left"), after_s=9.001)


def test_excuse_is_not_made_longer_by_what_is_told_again(scene: Scene) -> None:
    """A restart tells once more who is not there."""
    scene.eye.excuses.removal_asked("ann")
    scene.joined(scene.ann)
    scene.eye.excuses.hear(gone("ann", "left"))
    scene.scheduler.run(5.0)
    scene.eye.excuses.hear(recovered())
    scene.scheduler.run(4.001)
    assert not scene.eye.excuses.cover(cast(Worker, scene.ann))


@pytest.mark.parametrize(("paused_s", "is_excused"), [(8.0, True), (9.001, False)])
def test_member_that_was_dropped_while_it_was_paused(
    scene: Scene, paused_s: float, *, is_excused: bool
) -> None:
    """Its lease from before may not be over when it goes on, and then nothing has told it."""
    ann = cast(Worker, scene.ann)
    scene.joined(scene.ann)
    scene.eye.excuses.paused(ann)
    scene.scheduler.run(paused_s)
    scene.eye.excuses.hear(gone("ann", "rebalance_expired"))
    scene.eye.excuses.went_on(ann)
    assert scene.eye.excuses.is_unaware(ann) == is_excused


def test_pause_does_not_end_another_excuse(scene: Scene) -> None:
    """Who was removed before it was paused still can't know that when it goes on."""
    ann = cast(Worker, scene.ann)
    scene.eye.excuses.removal_asked("ann")
    scene.joined(scene.ann)
    scene.eye.excuses.hear(gone("ann", "left"))
    scene.eye.excuses.paused(ann)
    scene.eye.excuses.went_on(ann)
    scene.scheduler.run(1.0)
    assert scene.eye.excuses.cover(ann)


@pytest.mark.parametrize("names", [(), ("ann",)])
def test_removal_may_be_told_by_the_next_life_of_the_node(
    scene: Scene, names: tuple[str, ...]
) -> None:
    """It was stored and not told, as the node was killed (seed 820446 of brief)."""
    scene.eye.excuses.removal_asked("ann")
    assert bool(overlap(scene, recovered(*names))) == bool(names)


@pytest.mark.parametrize("is_contested", [True, False])
def test_replacement_may_be_told_by_the_next_life_of_the_node(
    scene: Scene, *, is_contested: bool
) -> None:
    """The same, but only if there is another process of that name."""
    scene.ann.instance = "i"
    scene.eye.excuses.started(cast(Worker, scene.ann))
    if is_contested:
        scene.eye.excuses.started(cast(Worker, Somebody("cho", "i")))
    assert bool(overlap(scene, recovered("x"))) != is_contested


def test_a_restart_alone_excuses_nobody(scene: Scene) -> None:
    """A node that forgets a member while it is at work is to blame."""
    assert "two workers" in overlap(scene, recovered())


def test_who_does_not_know_that_it_is_out_may_begin_what_others_have(scene: Scene) -> None:
    """Its assignment was on its way when its membership was ended (seed 8062 of brief)."""
    scene.joined(scene.ann)
    scene.journal(replaced("ann"))
    scene.do("started", scene.bob, Share(2))
    scene.do("started", scene.ann, Share(1))
    assert scene.blame == ""
    scene.do("started", scene.bob, Share(1))
    assert "two workers" in scene.blame


@pytest.mark.parametrize("what", ["started", "touched"])
def test_work_of_somebody_who_is_no_member_is_seen(scene: Scene, what: str) -> None:
    """Even if nobody else is at it: its lease ought to have ended before its membership."""
    scene.members = {"ann"}
    scene.do("started", scene.ann, Share(1))
    assert scene.blame == ""
    scene.members = set()
    scene.do(what, scene.ann, Share(2), *([1] if what == "touched" else []))
    assert "ann works on it, and 'ann' is no member" in scene.blame


def test_work_on_what_was_lost_is_seen(scene: Scene) -> None:
    """Whose client knows that it has lost a partition does nothing more for it."""
    scene.do("started", scene.ann, Share(1))
    scene.do("touched", scene.ann, Share(1, is_owned=False), 1)
    assert "ann works on what its own client says is lost" in scene.blame


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_ended", [True, False])
def test_owner_that_was_silent_comes_back_with_its_token(scene: Scene, *, has_ended: bool) -> None:
    """It stopped by itself, and its ownership had not ended; but it may not begin twice."""
    scene.do("started", scene.ann, Share(5))
    if has_ended:
        scene.do("ended", scene.ann, Share(5))
    scene.do("started", scene.ann, Share(5))
    assert bool(scene.blame) != has_ended


@pytest.mark.parametrize("token", [4, 5])
def test_token_has_to_be_newer(scene: Scene, token: int) -> None:
    """Each owner has a higher token than the one before."""
    scene.do("started", scene.ann, Share(5))
    scene.do("ended", scene.ann, Share(5))
    scene.do("started", scene.bob, Share(token))
    assert f"token {token} after 5" in scene.blame


def test_heir_of_a_name_has_a_newer_token_at_once(scene: Scene) -> None:
    """A process that takes over a name is no exception, however soon it does."""
    scene.ann.instance = scene.bob.instance = "i"
    scene.do("started", scene.ann, Share(5))
    scene.do("ended", scene.ann, Share(5))
    scene.do("started", scene.bob, Share(5))
    assert "token 5 after 5" in scene.blame


@pytest.mark.parametrize("token", [2, 3])
def test_who_begins_though_it_is_out_has_an_older_token(scene: Scene, token: int) -> None:
    """That it may not know excuses no token as high as its successor's (seed 1004235 of brief)."""
    scene.joined(scene.ann)
    scene.journal(replaced("ann"))
    scene.do("started", scene.bob, Share(2))
    scene.do("started", scene.ann, Share(token))
    assert "ann" in scene.blame or f"token {token} after 2" in scene.blame


# -- offsets ---------------------------------------------------------------------------------------


def test_forgotten_commit_is_seen(scene: Scene) -> None:
    """What somebody was told is stored is what the next owner begins with."""
    scene.do("started", scene.ann, Share(1))
    scene.do("touched", scene.ann, Share(1), 7)
    scene.do("committed", scene.ann, Share(1), 7)
    scene.do("ended", scene.ann, Share(1))
    scene.do("started", scene.bob, Share(2))
    scene.do("resumed", scene.bob, Share(2), 6)
    assert "told offset 6, but 7 was stored" in scene.blame


def test_offset_from_nowhere_is_seen(scene: Scene) -> None:
    """Nobody is told an offset that nobody ever committed."""
    scene.do("started", scene.ann, Share(1))
    scene.do("resumed", scene.ann, Share(1), 3)
    assert "offset 3 was never committed" in scene.blame


def test_untold_commit_may_be_there(scene: Scene) -> None:
    """A commit that nobody was told of may be stored or not."""
    scene.do("started", scene.ann, Share(1))
    scene.do("touched", scene.ann, Share(1), 7)
    scene.do("resumed", scene.ann, Share(1), 7)
    scene.do("resumed", scene.ann, Share(1), 0)
    assert scene.blame == ""


def test_commit_with_an_old_token_is_seen(scene: Scene) -> None:
    """Nobody is told that a commit passed while somebody newer is at work."""
    scene.do("started", scene.ann, Share(1))
    scene.do("ended", scene.ann, Share(1))
    scene.do("started", scene.bob, Share(2))
    scene.do("committed", scene.ann, Share(1), 1)
    assert "a commit of ann passed with an old token" in scene.blame


def test_commit_may_be_confirmed_late(scene: Scene) -> None:
    """Who was stopped hears of its commit when it goes on, and that passed long ago.

    A run found it: the answer was on its way when its worker was paused and then removed.
    """
    scene.do("started", scene.ann, Share(1))
    scene.eye.excuses.paused(cast(Worker, scene.ann))
    scene.do("started", scene.bob, Share(2))
    scene.do("committed", scene.ann, Share(1), 1)
    assert scene.blame == ""


# -- the journal -----------------------------------------------------------------------------------


def test_contradiction_in_the_journal_is_seen(scene: Scene) -> None:
    """What can't be true in the journal's story is as bad as what is seen."""
    scene.journal(gone("nobody", "left"))
    assert "was not there" in scene.blame


def test_generation_that_the_journal_does_not_know_is_seen(scene: Scene) -> None:
    """Nobody is in a generation before the journal tells of it."""
    scene.joined(scene.ann, 1)
    assert "ann is in generation 1, after 0" in scene.blame


@pytest.mark.parametrize("how", ["session_expired", "rebalance_expired"])
def test_healthy_member_is_not_dropped(scene: Scene, how: str) -> None:
    """While nothing befalls machines, nobody is dropped who is at work."""
    scene.eye.is_calm = True
    scene.joined(scene.ann)
    scene.eye._expired(gone("ann", how))  # noqa: SLF001  # without a story around it
    assert "ann was dropped, and nothing is wrong with it" in scene.blame


def test_dead_member_may_be_dropped(scene: Scene) -> None:
    """Who has ended is dropped in the end."""
    scene.eye.is_calm = True
    scene.joined(scene.ann)
    scene.ann.is_running = False
    scene.eye._expired(gone("ann", "session_expired"))  # noqa: SLF001
    assert scene.blame == ""


@pytest.mark.parametrize("is_calm", [True, False])
def test_coordinator_is_lost_only_if_something_is_wrong(scene: Scene, *, is_calm: bool) -> None:
    """While nothing befalls it, nobody loses the coordinator."""
    scene.eye.is_calm = is_calm
    lost = CoordinatorLost(node="n", reason="r", had_served=True)
    scene.eye.happened(cast(Worker, scene.ann), lost)
    assert bool(scene.blame) == is_calm


@pytest.mark.parametrize("expected", [True, False])
def test_conflicts_are_the_leaders_fault(scene: Scene, *, expected: bool) -> None:
    """A leader gives nothing away that somebody has, unless it is broken on purpose."""
    if expected:
        scene.eye.expect_conflicts()
    conflict = OwnershipConflict(
        group="g", generation=1, topic="t", partition=0, holder="a", given_to="b", withheld=True
    )
    scene.journal(conflict)
    assert bool(scene.blame) != expected


def test_conflicts_are_withheld(scene: Scene) -> None:
    """What a broken leader gives away twice, the guard withholds."""
    scene.eye.expect_conflicts()
    conflict = OwnershipConflict(
        group="g", generation=1, topic="t", partition=0, holder="a", given_to="b", withheld=False
    )
    scene.journal(conflict)
    assert "what another member has" in scene.blame


def test_first_blame_stays(scene: Scene) -> None:
    """What went wrong first is what is told."""
    scene.joined(scene.ann, 1)
    first = scene.blame
    scene.joined(scene.bob, 2)
    assert scene.blame == first


# -- when all is calm ------------------------------------------------------------------------------


def settled(scene: Scene, *partitions: tuple[str, int]) -> str:
    """Look at a group that has calmed down; what is wrong with it."""
    workers = cast(Any, [scene.ann, scene.bob])
    scene.eye.check_settled(workers, partitions)
    return scene.blame


def at_work(scene: Scene, who: Somebody, share: Share) -> None:
    """Have somebody own a partition and work on it."""
    who.owned.append(share)
    scene.do("started", who, share)


def test_settled_group_is_fine(scene: Scene) -> None:
    """Each partition has one owner who works on it."""
    at_work(scene, scene.ann, Share(1))
    at_work(scene, scene.bob, Share(1, number=1))
    assert settled(scene, ("t", 0), ("t", 1)) == ""


def test_partition_without_an_owner_is_seen(scene: Scene) -> None:
    """Nothing is left over."""
    at_work(scene, scene.ann, Share(1))
    assert "without an owner" in settled(scene, ("t", 0), ("t", 1))


def test_partition_that_is_not_there_is_seen(scene: Scene) -> None:
    """Nobody owns what does not exist."""
    at_work(scene, scene.ann, Share(1))
    assert "without being there" in settled(scene)


def test_partition_of_two_is_seen(scene: Scene) -> None:
    """Nothing has two owners, even if only one of them works on it."""
    at_work(scene, scene.ann, Share(1))
    scene.bob.owned.append(Share(2))
    assert "is owned by ann and bob" in settled(scene, ("t", 0))


def test_idle_owner_is_seen(scene: Scene) -> None:
    """Who owns a partition works on it."""
    at_work(scene, scene.ann, Share(1))
    scene.do("ended", scene.ann, Share(1))
    assert "ann owns t[0] and does not work" in settled(scene, ("t", 0)).replace(
        str(Share(1)), "t[0]"
    )


def test_other_share_than_the_leaders_is_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody has what the leader gave them, by the journal."""
    at_work(scene, scene.ann, Share(1))
    story = scene.eye.__dict__["_story"]
    monkeypatch.setattr(story, "share", lambda _group, name: {("t", 0)} if name == "bob" else set())
    assert "ann owns [('t', 0)], and was given []" in settled(scene, ("t", 0))
