"""The virtual network: which hosts reach each other, and what they notice of failures."""

from __future__ import annotations

import pytest

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual import NetworkOptions, Process
from tests.testing.virtual.peers import ADDRESS, Place


@pytest.fixture
def place() -> Place:
    """Return a server and a client that can reach it."""
    return Place()


# -- connecting ------------------------------------------------------------------------------------


def test_both_ends_are_told_of_a_connection(place: Place) -> None:
    near, far = place.connect()
    assert near.told == far.told == ["made"]
    assert near.transport.get_extra_info("peername") == (ADDRESS.host, ADDRESS.port)
    assert far.transport.get_extra_info("peername") == near.transport.get_extra_info("sockname")


def test_connecting_takes_a_round_trip() -> None:
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, far = place.connect()
    assert far.times_s == [0.5]
    assert near.times_s == [1.0]


def test_connecting_to_a_closed_port_is_refused(place: Place) -> None:
    _, task = place.begin_to_dial(NodeAddress("server", 1))
    place.scheduler.run(1.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_connecting_to_a_dead_process_is_refused(place: Place) -> None:
    place.server.kill()
    _, task = place.begin_to_dial()
    place.scheduler.run(1.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_successor_listens_at_the_same_address(place: Place) -> None:
    place.server.kill()
    successor = Process(place.scheduler, "server/2", "server")
    place.network.listen(successor, ADDRESS, place.accept)
    _, far = place.connect()
    assert far.transport.process is successor


def test_paused_listener_accepts_connections(place: Place) -> None:
    place.server.pause()
    near, task = place.begin_to_dial()
    place.scheduler.run(1.0)
    assert task.done()
    assert near.is_connected
    assert place.accepted == []
    place.server.resume()
    place.scheduler.run(1.0)
    assert place.accepted[0].is_connected


def test_connecting_given_up_leaves_no_connection(place: Place) -> None:
    _, task = place.begin_to_dial()
    place.scheduler.run(0.0)
    task.cancel()
    place.scheduler.run(1.0)
    assert place.accepted[0].told == ["made", "eof", "lost"]


def test_death_while_connecting_leaves_no_connection(place: Place) -> None:
    place.begin_to_dial()
    place.scheduler.run(0.0)
    place.client.kill()
    place.scheduler.run(1.0)
    assert not place.accepted[0].is_connected


def test_connection_broken_before_it_is_known_fails_to_connect() -> None:
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, task = place.begin_to_dial()
    place.scheduler.run(0.7)
    place.network.cut(place.client)
    place.scheduler.run(5.0)
    assert isinstance(task.exception(), ConnectionResetError)
    assert near.told == []


# -- parting ---------------------------------------------------------------------------------------


def test_isolated_hosts_connect_when_healed(place: Place) -> None:
    heal = place.network.conditions.isolate("client", "server")
    near, task = place.begin_to_dial()
    place.scheduler.run(10.0)
    assert not task.done()
    heal()
    place.scheduler.run(2.0)
    assert near.is_connected


def test_handshake_waits_for_isolation_to_heal() -> None:
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    near, _ = place.begin_to_dial()
    place.scheduler.run(0.7)
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(5.0)
    assert near.told == []
    heal()
    place.scheduler.run(2.0)
    assert near.is_connected


def test_refusal_waits_for_isolation_to_heal() -> None:
    place = Place(NetworkOptions(latency_s=(0.5, 0.5)))
    _, task = place.begin_to_dial(NodeAddress("server", 1))
    place.scheduler.run(0.7)
    heal = place.network.conditions.isolate("client", "server")
    place.scheduler.run(5.0)
    assert not task.done()
    heal()
    place.scheduler.run(2.0)
    assert isinstance(task.exception(), ConnectionRefusedError)


def test_isolating_two_hosts_concerns_only_them(place: Place) -> None:
    network = place.network
    heal = network.conditions.isolate("client", "server")
    assert network.conditions.are_isolated("server", "client")
    assert not network.conditions.are_isolated("client", "other")
    assert not network.conditions.are_isolated("client", "client")
    heal()
    assert not network.conditions.are_isolated("client", "server")


def test_isolated_host_reaches_only_itself(place: Place) -> None:
    place.network.conditions.isolate("server")
    assert place.network.conditions.are_isolated("server", "client")
    assert not place.network.conditions.are_isolated("server", "server")
    assert not place.network.conditions.are_isolated("client", "other")


def test_isolations_add_up(place: Place) -> None:
    first = place.network.conditions.isolate("client", "server")
    second = place.network.conditions.isolate("server")
    first()
    first()
    assert place.network.conditions.are_isolated("client", "server")
    second()
    assert not place.network.conditions.are_isolated("client", "server")


# -- ends ------------------------------------------------------------------------------------------


def test_death_resets_the_connections_of_the_peer(place: Place) -> None:
    near, far = place.connect()
    place.client.kill()
    place.scheduler.run(1.0)
    assert far.told == ["made", "lost"]
    assert isinstance(far.error, ConnectionResetError)
    assert near.told == ["made"]


def test_death_of_an_isolated_process_is_noticed_when_healed(place: Place) -> None:
    _, far = place.connect()
    heal = place.network.conditions.isolate("client", "server")
    place.client.kill()
    place.scheduler.run(60.0)
    assert far.is_connected
    heal()
    place.scheduler.run(2.0)
    assert isinstance(far.error, ConnectionResetError)


def test_cut_connection_is_lost_at_both_ends(place: Place) -> None:
    near, far = place.connect()
    assert place.network.cut(place.client) == 1
    place.scheduler.run(1.0)
    for peer in (near, far):
        assert peer.told == ["made", "lost"]
        assert isinstance(peer.error, ConnectionResetError)
    again, _ = place.connect()
    assert again.is_connected


def test_cut_spares_other_processes(place: Place) -> None:
    near, _ = place.connect()
    other = Process(place.scheduler, "other")
    assert place.network.cut(other) == 0
    place.scheduler.run(1.0)
    assert near.is_connected


def test_stragglers_take_longer() -> None:
    options = NetworkOptions(latency_s=(0.001, 0.001), straggler_chance=0.5, straggler_s=9.0)
    network = Place(options).network
    times_s = [network.conditions.travel_s() for _ in range(100)]
    assert 0.001 in times_s
    assert max(times_s) > 1.0
