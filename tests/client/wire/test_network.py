"""Requests to nodes: over which connection, tried how often, and what comes of failures."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import structlog.testing

from coterie_client.errors import (
    AnswerTimedOutError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
)
from coterie_client.wire import (
    ConnectionLimits,
    Network,
    RetryOptions,
    Sasl,
    SaslMechanism,
    Security,
    Tls,
)
from coterie_client.wire.addresses import ANY, AnyNode, Lane, NodeAddress
from coterie_client.wire.dialling import dial_tcp
from coterie_protocol import ApiKey, Request
from coterie_protocol.messages import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    MetadataRequest,
)
from coterie_protocol.schema import VersionRange
from tests.client.wire.doubles import (
    HANG_UP,
    PATIENCE_S,
    SILENCE,
    FakeServer,
    heartbeat,
    metadata_of,
    soon,
)

pytestmark = pytest.mark.asyncio

#: An address where nothing listens: the discard port, which no test machine serves.
UNREACHABLE = NodeAddress("127.0.0.1", 9)
PROMPT = RetryOptions(base_ms=1, max_ms=1, jitter=0)


def network(*bootstrap: NodeAddress, **options: Any) -> Network:
    """A network that goes about its nodes in order and without much of a back-off."""
    return Network(bootstrap, **{"random": lambda: 0.0, "reconnect": PROMPT, **options})


def join() -> JoinGroupRequest:
    """A request that may be parked."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id="group",
        session_timeout_ms=1_000,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )


def joined() -> JoinGroupResponse:
    """Its answer."""
    return JoinGroupResponse(protocol_name="range", leader="m", member_id="m", members=())


async def test_concurrent_requests_share_one_connection_attempt() -> None:
    async with FakeServer() as server, network(server.address) as net:
        questions = [net.request(heartbeat(), timeout_s=60) for _ in range(10)]
        await asyncio.gather(*questions)
        await net.request(heartbeat(), to=server.address, timeout_s=60)
        assert server.accepted == 1
        assert (net.counters.connections_opened, net.counters.answers) == (1, 12)


async def test_parked_join_does_not_delay_a_heartbeat_on_another_lane() -> None:
    release = asyncio.Event()

    async def answer(request: Request) -> Any:
        if request.api_key is ApiKey.JOIN_GROUP:
            await release.wait()
            return joined()
        return HeartbeatResponse()

    async with FakeServer(answer) as server, network(server.address) as net:
        to = server.address
        joining = asyncio.create_task(
            net.request(join(), to=to, lane=Lane.GROUP, timeout_s=PATIENCE_S)
        )
        await soon(lambda: len(server.received) == 1)
        for _ in range(3):
            await net.request(heartbeat(), to=to, lane=Lane.KEEPALIVE, timeout_s=60)
        assert not joining.done()
        release.set()
        assert (await joining).member_id == "m"
        assert server.accepted == 2


async def test_attempts_that_fail_again_and_again_are_not_all_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "coterie_client")

    async def fail(net: Network) -> None:
        for _ in range(9):
            with contextlib.suppress(ConnectionFailedError, ConnectionLostError):
                await net.request(heartbeat(), timeout_s=PATIENCE_S)

    with structlog.testing.capture_logs() as lines:
        async with FakeServer() as server, network(server.address) as net:
            await server.stop()
            await fail(net)
            await server.start()
            await net.request(heartbeat(), timeout_s=PATIENCE_S)
            await server.stop()
            await fail(net)
    levels = [line["log_level"] for line in lines if line["event"] == "connection failed"]
    assert levels.count("info") == 2
    assert len(levels) > 10


async def test_address_that_the_user_gave_is_not_said_to_be_a_servers() -> None:
    async with network(UNREACHABLE) as net:
        with pytest.raises(ConnectionFailedError) as raised:
            await net.request(heartbeat(), timeout_s=PATIENCE_S)
        assert not raised.value.is_advertised


async def test_any_tries_the_next_node_after_a_failed_connection() -> None:
    async with FakeServer() as server, network(UNREACHABLE, server.address) as net:
        assert await net.request(heartbeat(), timeout_s=60) == HeartbeatResponse(throttle_time_ms=6)
        assert net.counters.connections_failed == 1


async def test_any_tries_the_next_node_after_a_lost_connection() -> None:

    async def hang_up(_: Request) -> Any:
        return HANG_UP

    async with (
        FakeServer(hang_up) as bad,
        FakeServer() as good,
        network(bad.address, good.address) as net,
    ):
        await net.request(heartbeat(), to=ANY, timeout_s=60)
        assert (len(bad.received), len(good.received)) == (1, 1)


async def test_any_prefers_a_node_that_answered_to_one_that_is_connected_and_did_not() -> None:

    async def be_silent(_: Request) -> Any:
        return SILENCE

    async with (
        FakeServer(be_silent) as silent,
        FakeServer() as other,
        network(silent.address, other.address) as net,
    ):
        with pytest.raises(AnswerTimedOutError):
            await net.request(heartbeat(), timeout_s=0.05)
        await net.request(heartbeat(), timeout_s=60)
        assert (len(silent.received), len(other.received)) == (1, 1)


async def test_any_asks_the_next_node_while_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it has a connection: nobody closes those to a machine that has lost its power."""
    monkeypatch.setattr("coterie_client.wire.network._SLOW_S", 0.01)

    async def answer_once(_: Request) -> Any:
        return SILENCE if len(silent.received) > 1 else HeartbeatResponse()

    async with (
        FakeServer(answer_once) as silent,
        FakeServer() as other,
        network(silent.address, other.address) as net,
    ):
        await net.request(heartbeat(), to=silent.address, timeout_s=60)
        for _ in range(3):
            await net.request(heartbeat(), timeout_s=60)
        assert (len(silent.received), len(other.received)) == (2, 3)
        assert net.counters.connections_lost == 0


async def test_any_takes_a_late_answer_if_no_other_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie_client.wire.network._SLOW_S", 0.01)

    async def answer_late(_: Request) -> Any:
        await asyncio.sleep(0.1)
        return HeartbeatResponse(throttle_time_ms=7)

    async with FakeServer(answer_late) as slow, network(slow.address, UNREACHABLE) as net:
        answer = await net.request(heartbeat(), timeout_s=60)
        assert answer.throttle_time_ms == 7
        assert net.counters.connections_failed == 1


async def test_any_waits_for_one_that_is_slow_if_another_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one old server can't do does not end what another one is about to answer."""
    monkeypatch.setattr("coterie_client.wire.network._SLOW_S", 0.01)

    async def answer_late(_: Request) -> Any:
        await asyncio.sleep(0.3)
        return HeartbeatResponse(throttle_time_ms=7)

    async with (
        FakeServer(answer_late) as slow,
        FakeServer(versions={ApiKey.API_VERSIONS: VersionRange(0, 3)}) as old,
        network(slow.address, old.address) as net,
    ):
        answer = await net.request(heartbeat(), timeout_s=60)
        assert answer.throttle_time_ms == 7
        assert old.accepted == 1


async def test_any_but_one_asks_another_that_is_known() -> None:
    """Bootstrap addresses may be other names of that one."""
    async with FakeServer() as alias, FakeServer() as other:

        async def answer(request: Request) -> Any:
            if request.api_key is ApiKey.METADATA:
                return metadata_of(silent.address, other.address)
            return HeartbeatResponse()

        async with (
            FakeServer(answer) as silent,
            network(silent.address, alias.address) as net,
        ):
            await net.request(MetadataRequest(topics=None), to=silent.address, timeout_s=60)
            await net.request(heartbeat(), to=AnyNode(but=silent.address), timeout_s=60)
            assert [len(each.received) for each in (silent, alias, other)] == [1, 0, 1]


async def test_any_but_the_only_one_is_none() -> None:
    async with FakeServer() as server, network(server.address, UNREACHABLE) as net:
        with pytest.raises(ConnectionFailedError, match="No node is known but"):
            await net.request(heartbeat(), to=AnyNode(but=server.address), timeout_s=60)
        assert server.accepted == 0


async def test_any_prefers_a_connected_node() -> None:
    async with FakeServer() as server, network(UNREACHABLE, server.address) as net:
        for _ in range(3):
            await net.request(heartbeat(), timeout_s=60)
        assert net.counters.connections_failed == 1


async def test_any_anew_asks_one_that_is_not_connected_as_well() -> None:
    """What the one that is connected tells may be of no help."""
    async with (
        FakeServer() as first,
        FakeServer() as other,
        network(first.address, other.address, random=lambda: 0.5) as net,
    ):
        await net.request(heartbeat(), to=first.address, timeout_s=60)
        await net.request(heartbeat(), timeout_s=60)
        assert [len(each.received) for each in (first, other)] == [2, 0]
        await net.request(heartbeat(), to=AnyNode(anew=True), timeout_s=60)
        assert [len(each.received) for each in (first, other)] == [2, 1]


async def test_any_anew_asks_one_that_has_failed_as_well() -> None:
    """It may be the one that knows, and fails no more."""
    answers = [HANG_UP]

    async def hang_up_once(_: Request) -> Any:
        return answers.pop() if answers else HeartbeatResponse()

    async with (
        FakeServer() as first,
        FakeServer(hang_up_once) as other,
        network(first.address, other.address, random=lambda: 0.5, reconnect=PROMPT) as net,
        asyncio.timeout(60),
    ):
        with pytest.raises(ConnectionLostError):
            await net.request(heartbeat(), to=other.address, timeout_s=60)
        while not other.received[1:]:
            await net.request(heartbeat(), to=AnyNode(anew=True), timeout_s=60)


async def test_error_names_every_node_that_failed() -> None:
    other = NodeAddress("127.0.0.1", 7)
    async with network(UNREACHABLE, other) as net:
        with pytest.raises(ConnectionFailedError) as caught:
            await net.request(heartbeat(), timeout_s=60)
        assert str(UNREACHABLE) in str(caught.value)
        assert str(other) in str(caught.value)
        assert caught.value.retriable


async def test_request_to_one_node_does_not_go_to_another() -> None:
    async with FakeServer() as server, network(server.address) as net:
        with pytest.raises(ConnectionFailedError):
            await net.request(heartbeat(), to=UNREACHABLE, timeout_s=60)
        assert server.received == []


async def test_reconnects_after_a_restart() -> None:
    async with FakeServer() as server, network(server.address) as net:
        await net.request(heartbeat(), timeout_s=60)
        await server.stop()
        await server.start()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                # The first request may still meet the old connection.
                with contextlib.suppress(ConnectionLostError, ConnectionFailedError):
                    await net.request(heartbeat(), timeout_s=60)
                    break
        assert net.counters.reconnects >= 1
        assert net.counters.connections_lost == 1


async def test_node_that_is_named_as_coordinator_is_connected_to_at_once() -> None:
    """It may have started again; who asks for it has pauses of its own."""

    async def answer(_: Request) -> Any:
        host, port = named.address.host, named.address.port
        return FindCoordinatorResponse(node_id=1, host=host, port=port)

    slow = RetryOptions(base_ms=600_000, max_ms=600_000)
    async with (
        FakeServer() as named,
        FakeServer(answer) as other,
        network(other.address, reconnect=slow) as net,
    ):
        await named.stop()
        with pytest.raises(ConnectionFailedError):
            await net.request(heartbeat(), to=named.address, timeout_s=PATIENCE_S)
        await named.start()
        await net.request(FindCoordinatorRequest(key="g"), timeout_s=PATIENCE_S)
        await net.request(heartbeat(), to=named.address, timeout_s=PATIENCE_S)


async def test_timeout_makes_the_next_request_take_a_new_connection() -> None:

    async def answer(_: Request) -> Any:
        return SILENCE if len(server.received) == 2 else HeartbeatResponse()

    async with FakeServer(answer) as server, network(server.address) as net:
        await net.request(heartbeat(), timeout_s=60)
        with pytest.raises(AnswerTimedOutError, match="Heartbeat"):
            await net.request(heartbeat(), timeout_s=0.05)
        await net.request(heartbeat(), timeout_s=60)
        assert server.accepted == 2


async def test_timeout_includes_connecting() -> None:
    reach = asyncio.Event()

    async def dial(make: Callable[[], asyncio.Protocol], to: NodeAddress, tls: Any) -> object:
        await reach.wait()
        return await dial_tcp(make, to, tls)

    async with FakeServer() as server, network(server.address, dial=dial) as net:
        with pytest.raises(ConnectionFailedError, match="in time for Heartbeat"):
            await net.request(heartbeat(), timeout_s=0.01)
        reach.set()
        await net.request(heartbeat(), timeout_s=60)
        assert server.accepted == 1


async def test_cancelled_caller_does_not_cancel_the_attempt_for_others() -> None:
    reach = asyncio.Event()

    async def dial(make: Callable[[], asyncio.Protocol], to: NodeAddress, tls: Any) -> object:
        await reach.wait()
        return await dial_tcp(make, to, tls)

    async with FakeServer() as server, network(server.address, dial=dial) as net:
        tasks = [asyncio.create_task(net.request(heartbeat(), timeout_s=60)) for _ in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.wait({tasks[0]})
        reach.set()
        await tasks[1]
        assert server.accepted == 1


class Stopwatch:
    """Records when a node is dialled, by the clock of the loop, and refuses."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    async def dial(self, *_: object) -> object:
        """Refuse."""
        self.at_s.append(asyncio.get_running_loop().time())
        raise ConnectionRefusedError("refused")

    @property
    def gaps_s(self) -> list[float]:
        """The time between attempts."""
        return [later - sooner for sooner, later in zip(self.at_s, self.at_s[1:], strict=False)]


async def test_attempts_keep_to_the_back_off_however_often_a_caller_asks() -> None:
    watch = Stopwatch()
    pace = RetryOptions(base_ms=10, max_ms=40, jitter=0)
    async with network(UNREACHABLE, dial=watch.dial, reconnect=pace) as net:
        for _ in range(5):
            with pytest.raises(ConnectionFailedError):
                await net.request(heartbeat(), to=UNREACHABLE, timeout_s=60)
    # The loop's clock may round a timer by a millisecond.
    for gap_s, least_s in zip(watch.gaps_s, [0.01, 0.02, 0.04, 0.04], strict=True):
        assert gap_s >= least_s - 0.001


class Recorded(RetryOptions):
    """A pace without waiting, that remembers how many failures in a row it was asked for."""

    asked: ClassVar[list[int]] = []

    def delay_ms(self, failures: int, chance: float) -> int:
        """Do not wait."""
        del chance
        self.asked.append(failures)
        return 0


async def test_answer_resets_the_back_off() -> None:
    Recorded.asked.clear()
    refusals = [True, True, True, False, True]

    async def dial(make: Callable[[], asyncio.Protocol], to: NodeAddress, tls: Any) -> object:
        if refusals.pop(0):
            raise ConnectionRefusedError("refused")
        return await dial_tcp(make, to, tls)

    async with (
        FakeServer() as server,
        network(server.address, dial=dial, reconnect=Recorded()) as net,
    ):
        for _ in range(3):
            with pytest.raises(ConnectionFailedError):
                await net.request(heartbeat(), timeout_s=60)
        await net.request(heartbeat(), timeout_s=60)
        net.hang_up(server.address)
        with pytest.raises(ConnectionFailedError):
            await net.request(heartbeat(), timeout_s=60)
    assert Recorded.asked == [1, 2, 3, 1]


async def test_nodes_controller_and_coordinators_are_learnt_from_answers() -> None:
    third = Coordinator(key="g", node_id=3, host="three", port=3, error_message=None)
    lost = Coordinator(key="h", node_id=-1, host="", port=-1, error_code=15, error_message=None)

    async def answer(request: Request) -> Any:
        if request.api_key is ApiKey.METADATA:
            return metadata_of(server.address, NodeAddress("two", 2), controller=1)
        if request.api_version < 4:
            return FindCoordinatorResponse(node_id=2, host="late", port=4)
        return FindCoordinatorResponse(coordinators=(third, lost))

    async with FakeServer(answer) as server, network(server.address) as net:
        await net.request(MetadataRequest(topics=None), timeout_s=60)
        assert net.known == {0: server.address, 1: NodeAddress("two", 2)}
        assert net.nodes.controller == NodeAddress("two", 2)
        await net.request(FindCoordinatorRequest(key="g"), timeout_s=60)
        await net.request(FindCoordinatorRequest(coordinator_keys=("g", "h")), timeout_s=60)
        assert {2: NodeAddress("late", 4), 3: NodeAddress("three", 3)}.items() <= net.known.items()
        assert -1 not in net.known


async def test_known_nodes_are_asked_when_the_bootstrap_node_is_gone() -> None:
    async with FakeServer() as second:

        async def answer(_: Request) -> Any:
            return metadata_of(second.address)

        first = FakeServer(answer)
        await first.start()
        async with network(first.address) as net:
            await net.request(MetadataRequest(topics=()), timeout_s=60)
            await first.stop()
            await net.request(heartbeat(), timeout_s=60)
            assert len(second.received) == 1


async def test_hang_up_drops_a_nodes_connections() -> None:

    async def answer(_: Request) -> Any:
        return SILENCE if len(server.received) == 1 else HeartbeatResponse()

    async with FakeServer(answer) as server, network(server.address) as net:
        task = asyncio.create_task(net.request(heartbeat(), to=server.address, timeout_s=60))
        await soon(lambda: len(server.received) == 1)
        net.hang_up(server.address)
        net.hang_up(UNREACHABLE)
        with pytest.raises(ConnectionLostError):
            await task
        await net.request(heartbeat(), to=server.address, timeout_s=60)
        assert server.accepted == 2


async def test_hang_up_on_a_lane_leaves_the_other_lane_connected() -> None:

    async def answer(_: Request) -> Any:
        return HeartbeatResponse()

    async with FakeServer(answer) as server, network(server.address) as net:
        for lane in Lane:
            await net.request(heartbeat(), to=server.address, lane=lane, timeout_s=60)
        net.hang_up(server.address, Lane.GROUP)
        await net.request(heartbeat(), to=server.address, lane=Lane.KEEPALIVE, timeout_s=60)
        assert server.accepted == 2
        await net.request(heartbeat(), to=server.address, lane=Lane.GROUP, timeout_s=60)
        assert server.accepted == 3


async def test_close_fails_pending_requests() -> None:
    reached = asyncio.Event()

    async def dial(make: Callable[[], asyncio.Protocol], to: NodeAddress, tls: Any) -> object:
        if to == UNREACHABLE:
            reached.set()
            await asyncio.Event().wait()
        return await dial_tcp(make, to, tls)

    async def answer(_: Request) -> Any:
        return SILENCE

    async with FakeServer(answer) as server:
        net = network(server.address, dial=dial)
        waiting = asyncio.create_task(net.request(heartbeat(), timeout_s=PATIENCE_S))
        connecting = asyncio.create_task(
            net.request(heartbeat(), to=UNREACHABLE, timeout_s=PATIENCE_S)
        )
        await soon(lambda: bool(server.received) and reached.is_set())
        await net.aclose()
        errors = await asyncio.gather(waiting, connecting, return_exceptions=True)
        assert [type(error) for error in errors] == [ClientClosedError] * 2
        with pytest.raises(ClientClosedError):
            await net.request(heartbeat(), timeout_s=60)
        await net.aclose()
        assert net.closed
        await server.emptied()


async def test_close_does_not_wait_for_a_back_off() -> None:
    slow = RetryOptions(base_ms=600_000, max_ms=600_000)
    watch = Stopwatch()
    net = network(UNREACHABLE, dial=watch.dial, reconnect=slow)
    with pytest.raises(ConnectionFailedError):
        await net.request(heartbeat(), timeout_s=60)
    task = asyncio.create_task(net.request(heartbeat(), timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    await asyncio.wait_for(net.aclose(), PATIENCE_S)
    with pytest.raises(ClientClosedError):
        await task


async def test_missing_tls_files_are_reported_at_construction() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.pem"):
        Network("host:1", security=Security(tls=Tls(cafile="nowhere.pem")))


async def test_password_is_not_shown() -> None:
    phrase = "open sesame"
    sasl = Sasl(SaslMechanism.PLAIN, "alice", phrase)
    security = Security(tls=Tls(certfile="c", keyfile="k", key_password=phrase), sasl=sasl)
    assert "alice" in repr(security)
    assert "sesame" not in repr(security)


async def test_limits_reach_the_connection() -> None:
    async with (
        FakeServer() as server,
        network(server.address, limits=ConnectionLimits(frame_max_bytes=50)) as net,
    ):
        with pytest.raises(ConnectionFailedError, match="50 at most"):
            await net.request(heartbeat(), timeout_s=60)
