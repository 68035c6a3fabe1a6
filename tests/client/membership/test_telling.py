"""What a member tells of itself, to the coordinator and past the other members."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from coterie_assignors import Cluster, CooperativeStickyAssignor, MemberInfo, RangeAssignor
from coterie_client import Group
from coterie_client.errors import ConfigurationError
from coterie_client.membership.telling import member_data
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.consumer import decode_subscription
from coterie_protocol.member_data import MemberData, split_member_data
from coterie_protocol.messages import JoinGroupRequest
from coterie_server.group.owners import Ownerships, ownerships_of
from coterie_server.turns import begin
from tests.support.membership_world import Meeting, Worker
from tests.support.profiles import by_profile
from tests.support.scripted_membership import Script
from tests.support.turns import finished

TOLD = MemberData("h1:80", {"zone": "eu-1a"})


def told_by(request: JoinGroupRequest) -> MemberData | None:
    subscription = decode_subscription(request.protocols[0].metadata)
    return split_member_data(subscription.user_data)[1]


def test_address_and_labels_travel_with_the_subscription() -> None:
    script = Script("t")
    script.machine.tell(TOLD)
    script.start().find()
    assert told_by(script.asks(JoinGroupRequest)) == TOLD


def test_member_that_tells_nothing_sends_what_it_always_sent() -> None:
    script = Script("t").start()
    script.find()
    assert told_by(script.asks(JoinGroupRequest)) is None


# -- with the real coordinator ---------------------------------------------------------------------


def worker(meeting: Meeting, name: str, **options: Any) -> Worker:
    """A worker that tells an address after its name."""
    made = meeting.worker(name, **options)
    made.machine.tell(MemberData(f"{name}:80"))
    return made.start()


def shown(meeting: Meeting) -> dict[TopicPartition, tuple[str | None, int | None]]:
    """The address and the token of each partition, by the coordinator's word."""
    found: Ownerships = finished(begin(ownerships_of(meeting.group(), meeting.topics)))
    return {key: (each.address, each.token) for key, each in found.partitions.items()}


def at_work(meeting: Meeting) -> dict[TopicPartition, tuple[str, int]]:
    """The same by the workers' word."""
    return {
        partition: (f"{each.name}:80", token)
        for each in meeting.alive
        for partition, token in each.machine.owned.items()
    }


@pytest.mark.parametrize("instances", [False, True], ids=["dynamic", "static"])
def test_coordinator_knows_addresses_and_tokens_as_the_owners_do(*, instances: bool) -> None:
    meeting = Meeting({"t": 7})
    for name in ("a", "b", "c"):
        worker(meeting, name, **({"instance": name} if instances else {}))
        meeting.settle()
        assert shown(meeting) == at_work(meeting)
    meeting.alive[0].close()
    meeting.run(120_000)
    meeting.settle()
    assert shown(meeting) == at_work(meeting)


def test_eager_members_have_new_tokens_in_each_generation() -> None:
    meeting = Meeting({"t": 4})
    worker(meeting, "a", assignors=(RangeAssignor(),))
    meeting.settle()
    first = shown(meeting)
    worker(meeting, "b", assignors=(RangeAssignor(),))
    meeting.settle()
    assert shown(meeting) == at_work(meeting)
    assert all((shown(meeting)[each][1] or 0) > (token or 0) for each, (_, token) in first.items())


def test_restarted_coordinator_shows_no_token_that_its_owner_does_not_have() -> None:
    meeting = Meeting({"t": 6})
    for name in ("a", "b", "c"):
        worker(meeting, name)
        meeting.settle()
    meeting.crash()
    for partition, (address, token) in at_work(meeting).items():
        told, known = shown(meeting)[partition]
        assert told == address
        assert known is not None
        assert known <= token


def test_changed_address_is_told_by_joining_again() -> None:
    meeting = Meeting({"t": 4})
    first = worker(meeting, "a")
    meeting.settle()
    assert first.machine.tell(MemberData("other:80"))
    first.do(first.machine.rejoin("another address", meeting.now_ms))
    meeting.settle()
    assert {address for address, _ in shown(meeting).values()} == {"other:80"}


def test_member_that_tells_an_address_later_is_shown_with_the_tokens_that_it_has() -> None:
    meeting = Meeting({"t": 4})
    first = meeting.worker("a").start()
    meeting.settle()
    first.machine.tell(MemberData("a:80"))
    first.do(first.machine.rejoin("an address", meeting.now_ms))
    meeting.settle()
    assert shown(meeting) == at_work(meeting)
    meeting.crash()
    assert shown(meeting) == at_work(meeting)


def act(meeting: Meeting, chance: random.Random, number: int) -> None:
    """Let something happen to the group."""
    alive = meeting.alive
    match chance.choice(["come", "come", "go", "die", "crash", "move", "wait"]):
        case "come" if len(alive) < 5:
            instance = chance.choice([{}, {"instance": f"i{number % 3}"}])
            if not any(each.name == f"i{number % 3}" for each in alive):
                worker(meeting, instance.get("instance", f"w{number}"), **instance)
        case "go" if len(alive) > 1:
            chance.choice(alive).close()
        case "die" if len(alive) > 1:
            chance.choice(alive).die()
        case "crash":
            meeting.crash()
        case "move" if alive:
            mover = chance.choice(alive)
            mover.do(mover.machine.rejoin("for the sake of it", meeting.now_ms))
    meeting.run(chance.choice([10, 500, 5_000, 30_000]))


@pytest.mark.parametrize("seed", range(by_profile(quick=10, long=40)))
def test_no_token_is_ever_shown_that_its_owner_does_not_have(seed: int) -> None:
    meeting, chance = Meeting({"t": 7}, seed=seed), random.Random(seed)
    for number in range(15):
        act(meeting, chance, number)
        if not meeting.alive:
            continue
        meeting.settle()
        known = shown(meeting)
        for partition, (address, token) in at_work(meeting).items():
            assert known[partition][0] == address
            assert (known[partition][1] or 0) <= token, f"seed {seed}, step {number}"


def test_leader_and_members_that_know_nothing_of_it_share_the_group() -> None:
    meeting = Meeting({"t": 4})
    silent = meeting.worker("silent").start()
    meeting.settle()
    worker(meeting, "b")
    meeting.settle()
    addresses = sorted(address or "" for address, _ in shown(meeting).values())
    assert addresses == ["", "", "b:80", "b:80"]
    assert len(silent.working) == 2


def test_assignors_do_not_see_what_members_tell() -> None:
    seen: list[bytes | None] = []

    class Curious(CooperativeStickyAssignor):
        def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> Any:
            seen.extend(member.user_data for member in members.values())
            return super().assign(cluster, members)

    meeting = Meeting({"t": 4})
    worker(meeting, "a", assignors=(Curious(),))
    meeting.settle()
    assert seen
    assert all(b"mEMB" not in (each or b"") for each in seen)


# -- what can be told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "labels", "message"),
    [
        ("", None, "address must have 1 to 512 bytes"),
        ("h" * 513, None, "address must have 1 to 512 bytes"),
        ("h:1\n", None, "no line breaks"),
        (7, None, "address must be a string"),
        (None, ["zone"], "labels must be a mapping"),
        (None, {"zone": 7}, "the value of 'zone' in labels must be a string"),
        (None, {7: "x"}, "each name of labels must be a string"),
        (None, {"": "x"}, "each name of labels must have 1 to 256 bytes"),
        (None, {str(n): "x" for n in range(17)}, "at most 16"),
    ],
)
def test_what_makes_no_sense_is_refused(address: Any, labels: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Group("h:1", "g", topics=["t"], address=address, labels=labels)


def test_nothing_is_nothing() -> None:
    assert member_data(None, None) is None
    assert member_data(None, {}) is None
    assert member_data("h:1", {}) == MemberData("h:1")
