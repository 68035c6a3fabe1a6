"""Every way that the table of phases has is taken, and no other one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_assignors import RangeAssignor
from coterie_client.membership import Phase
from coterie_client.membership.context import MemberState
from coterie_client.membership.phases import TRANSITIONS
from coterie_protocol.error_codes import ErrorCode as E
from coterie_protocol.messages import JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse
from coterie_protocol.messages import SyncGroupRequest as Sync
from tests.support.scripted_membership import Script

T0, U0 = ("t", 0), ("u", 0)
P = Phase


def joining() -> Script:
    script = Script("t").start()
    script.find()
    return script


def syncing() -> Script:
    script = joining()
    script.join()
    return script


def leading() -> Script:
    script = joining()
    script.join(leads=True)
    return script


def proving() -> Script:
    """Its assignment took longer than a lease to come."""
    script = syncing()
    script.sleep(45_000)
    script.sync(T0)
    return script


def proves_itself() -> None:
    script = proving()
    script.beat()
    script.next_beat()
    script.sync(T0)


def stable() -> Script:
    script = Script("t", "u").start()
    script.settle(T0, U0)
    return script


def preparing() -> Script:
    """An eager member that ends its work before it joins again."""
    script = Script("t", assignors=(RangeAssignor(),)).start()
    script.settle(T0)
    script.next_beat(E.REBALANCE_IN_PROGRESS)
    return script


def unsubscribes_while_it_joins() -> None:
    script = stable()
    script.next_beat(E.REBALANCE_IN_PROGRESS)
    script.refuse(JoinGroupRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    script.subscribe("t")
    script.sleep(150)


def closes_while_it_ends_its_work() -> None:
    script = preparing()
    script.close()
    script.release()


def closes_at_work() -> None:
    script = stable()
    script.close()
    script.release()


def leaves() -> None:
    script = joining()
    script.refuse(JoinGroupRequest, E.MEMBER_ID_REQUIRED)
    script.close()
    script.answer(LeaveGroupRequest, LeaveGroupResponse())


#: How a member comes to take each way.
WAYS: dict[tuple[Phase, Phase], Callable[[], object]] = {
    (P.OUT, P.PREPARING): lambda: Script("t").start(),
    (P.OUT, P.LEAVING): lambda: Script("t").close(),
    (P.PREPARING, P.JOINING): joining,
    (P.PREPARING, P.OUT): lambda: preparing().next_beat(E.UNKNOWN_MEMBER_ID),
    (P.PREPARING, P.LEAVING): closes_while_it_ends_its_work,
    (P.JOINING, P.PREPARING): unsubscribes_while_it_joins,
    (P.JOINING, P.LEADING): leading,
    (P.JOINING, P.SYNCING): syncing,
    (P.JOINING, P.OUT): lambda: joining().refuse(JoinGroupRequest, E.UNKNOWN_MEMBER_ID),
    (P.JOINING, P.LEAVING): lambda: joining().close(),
    (P.LEADING, P.SYNCING): lambda: leading().tell_topics(),
    (P.LEADING, P.OUT): lambda: leading().beat(E.ILLEGAL_GENERATION),
    (P.LEADING, P.LEAVING): lambda: leading().close(),
    (P.SYNCING, P.PROVING): proving,
    (P.SYNCING, P.STABLE): lambda: syncing().refuse(Sync, E.REBALANCE_IN_PROGRESS),
    (P.SYNCING, P.OUT): lambda: syncing().refuse(Sync, E.ILLEGAL_GENERATION),
    (P.SYNCING, P.LEAVING): lambda: syncing().close(),
    (P.PROVING, P.STABLE): proves_itself,
    (P.PROVING, P.OUT): lambda: proving().beat(E.ILLEGAL_GENERATION),
    (P.PROVING, P.LEAVING): lambda: proving().close(),
    (P.STABLE, P.PREPARING): lambda: stable().next_beat(E.REBALANCE_IN_PROGRESS),
    (P.STABLE, P.PROVING): lambda: stable().sleep(45_000),
    (P.STABLE, P.OUT): lambda: stable().next_beat(E.ILLEGAL_GENERATION),
    (P.STABLE, P.LEAVING): closes_at_work,
    (P.LEAVING, P.OVER): leaves,
}
EDGES = [(source, target) for source in TRANSITIONS for target in TRANSITIONS[source]]
REFUSED = [
    (source, target)
    for source in Phase
    for target in Phase
    if target is not source and target not in TRANSITIONS[source]
]


def named(way: tuple[Phase, Phase]) -> str:
    return "-".join(phase.name for phase in way)


@pytest.mark.parametrize("way", EDGES, ids=named)
def test_way_is_taken(way: tuple[Phase, Phase], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[Phase, Phase]] = []
    enter = MemberState.enter

    def note(state: MemberState, phase: Phase) -> None:
        taken.append((state.phase, phase))
        enter(state, phase)

    monkeypatch.setattr(MemberState, "enter", note)
    WAYS[way]()
    assert way in taken


@pytest.mark.parametrize(("source", "target"), REFUSED, ids=lambda phase: phase.name)
def test_other_ways_are_refused(source: Phase, target: Phase) -> None:
    state = MemberState(phase=source)
    with pytest.raises(AssertionError, match=f"from {source.name} to {target.name}"):
        state.enter(target)
    assert state.phase is source


def test_every_phase_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Phase)
