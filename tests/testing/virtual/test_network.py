"""The virtual network: who gets through to whom, and who notices what."""

from __future__ import annotations

import pytest

from coterie_client.membership import NodeAddress
from coterie_testing.virtual import NetworkOptions, Process
from tests.testing.virtual.peers import ADDRESS, Place


@pytest.fixture
def place() -> Place:
    """Return a server and a client that can reach it."""
    return Place()


# -- connecting ------------------------------------------------------------------------------------


def test_both_ends_are_told_of_a_connection(place: Place) -> None:
    """A connection is made at both ends, which know each other's addresses."""
    near, far = place.connect()
    assert near.told == far.told == ["made"]
    assert near.transport.get_extra_info("peername") == (ADDRESS.host, ADDRESS.port)
    assert far.transport.get_extra_info("peername") == near.transport.get_extra_info("sockname")


def test_connecting_takes_a_round_trip() -> None:
    """A handshake goes there and back, each at the network's pace."""
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, far = place.connect()
    assert far.times_s == [0.5]
    assert near.times_s == [1.0]


def test_nobody_listening_refuses(place: Place) -> None:
    """Dialling an address where nobody listens fails at once."""
    _, task = place.begin_to_dial(NodeAddress("server", 1))
    place.scheduler.run(1.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_dead_listener_refuses(place: Place) -> None:
    """A process that died does not listen any more."""
    place.server.kill()
    _, task = place.begin_to_dial()
    place.scheduler.run(1.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_successor_listens_at_the_same_address(place: Place) -> None:
    """A process that takes over an address is who answers there, once the former one is dead."""
    place.server.kill()
    successor = Process(place.scheduler, "server/2", "server")
    place.network.listen(successor, ADDRESS, place.accept)
    _, far = place.connect()
    assert far.transport.process is successor


def test_paused_listener_accepts_all_the_same(place: Place) -> None:
    """A machine shakes hands while its process is stopped; that one hears of it later."""
    place.server.pause()
    near, task = place.begin_to_dial()
    place.scheduler.run(1.0)
    assert task.done()
    assert near.is_connected
    assert place.accepted == []
    place.server.resume()
    place.scheduler.run(1.0)
    assert place.accepted[0].is_connected


def test_given_up_dial_leaves_no_connection(place: Place) -> None:
    """Whoever gives up dialling before the answer comes leaves nothing open behind."""
    _, task = place.begin_to_dial()
    place.scheduler.run(0.0)
    task.cancel()
    place.scheduler.run(1.0)
    assert place.accepted[0].told == ["made", "eof", "lost"]


def test_death_while_dialling_leaves_no_connection(place: Place) -> None:
    """A process that dies before the answer to its call comes leaves nothing open behind."""
    place.begin_to_dial()
    place.scheduler.run(0.0)
    place.client.kill()
    place.scheduler.run(1.0)
    assert not place.accepted[0].is_connected


def test_connection_that_breaks_at_once_fails_the_dial() -> None:
    """When a connection breaks before its caller hears of it, dialling fails."""
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, task = place.begin_to_dial()
    place.scheduler.run(0.7)
    place.network.cut(place.client)
    place.scheduler.run(5.0)
    assert isinstance(task.exception(), ConnectionResetError)
    assert near.told == []


# -- parting ---------------------------------------------------------------------------------------


def test_parted_hosts_connect_when_healed(place: Place) -> None:
    """A call that can't get through is repeated until it does."""
    heal = place.network.conditions.isolate("client", "server")
    near, task = place.begin_to_dial()
    place.scheduler.run(10.0)
    assert not task.done()
    heal()
    place.scheduler.run(2.0)
    assert near.is_connected


def test_answer_to_a_call_does_not_cross_a_rift() -> None:
    """Hosts that are parted during a handshake are not connected before they are together again."""
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, _ = place.begin_to_dial()
    place.scheduler.run(0.7)
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(5.0)
    assert near.told == []
    heal()
    place.scheduler.run(2.0)
    assert near.is_connected


def test_refusal_does_not_cross_a_rift() -> None:
    """Who is parted from a host is not told either that nobody listens there."""
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    _, task = place.begin_to_dial(NodeAddress("server", 1))
    place.scheduler.run(0.7)
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(5.0)
    assert not task.done()
    heal()
    place.scheduler.run(2.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_rift_parts_only_whom_it_names(place: Place) -> None:
    """Two hosts that are parted reach all others, and each other again when healed."""
    network = place.network
    heal = network.conditions.isolate("client", "server")
    assert network.conditions.are_isolated("server", "client")
    assert not network.conditions.are_isolated("client", "other")
    assert not network.conditions.are_isolated("client", "client")
    heal()
    assert not network.conditions.are_isolated("client", "server")


def test_isolated_host_reaches_only_itself(place: Place) -> None:
    """A host can be parted from all others."""
    place.network.conditions.isolate("server")
    assert place.network.conditions.are_isolated("server", "client")
    assert not place.network.conditions.are_isolated("server", "server")
    assert not place.network.conditions.are_isolated("client", "other")


def test_rifts_add_up(place: Place) -> None:
    """Healing one of two rifts between the same hosts leaves them parted."""
    first = place.network.conditions.isolate("client", "server")
    second = place.network.conditions.isolate("server")
    first()
    first()
    assert place.network.conditions.are_isolated("client", "server")
    second()
    assert not place.network.conditions.are_isolated("client", "server")


# -- ends ------------------------------------------------------------------------------------------


def test_death_is_noticed_by_the_peer(place: Place) -> None:
    """The connections of a process that dies are reset, and it itself hears nothing of that."""
    near, far = place.connect()
    place.client.kill()
    place.scheduler.run(1.0)
    assert far.told == ["made", "lost"]
    assert isinstance(far.error, ConnectionResetError)
    assert near.told == ["made"]


def test_death_behind_a_rift_is_noticed_when_healed(place: Place) -> None:
    """Nobody learns of a death through a network that lets nothing through."""
    _, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    place.client.kill()
    place.scheduler.run(60.0)
    assert far.is_connected
    heal()
    place.scheduler.run(2.0)
    assert isinstance(far.error, ConnectionResetError)


def test_cut_is_noticed_by_both_ends(place: Place) -> None:
    """A connection that is cut is lost at both ends, with an error; new ones can be made."""
    near, far = place.connect()
    assert place.network.cut(place.client) == 1
    place.scheduler.run(1.0)
    for peer in (near, far):
        assert peer.told == ["made", "lost"]
        assert isinstance(peer.error, ConnectionResetError)
    again, _ = place.connect()
    assert again.is_connected


def test_cut_spares_others(place: Place) -> None:
    """Only the connections of the process that is named are cut."""
    near, _ = place.connect()
    other = Process(place.scheduler, "other")
    assert place.network.cut(other) == 0
    place.scheduler.run(1.0)
    assert near.is_connected


def test_stragglers_take_longer() -> None:
    """With a chance of stragglers, some bytes take much longer than the latency allows."""
    options = NetworkOptions(latency_s=(0.001, 0.001), straggler_chance=0.5, straggler_s=9.0)
    network = Place(options).network
    times_s = [network.conditions.travel_s() for _ in range(100)]
    assert 0.001 in times_s
    assert max(times_s) > 1.0
