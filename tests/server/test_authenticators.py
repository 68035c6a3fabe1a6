"""What the settings make of logins."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from coterie_protocol import messages as m
from coterie_server.address import Address
from coterie_server.authenticators import Authenticators, first_credentials
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.options import ServerOptions
from coterie_server.config.setting import SettingsError
from coterie_server.config.settings import Settings
from coterie_server.net import Terms
from coterie_server.net.check_queue import Job
from coterie_server.net.guard import Authenticator
from coterie_server.security import ScramMechanism, SecurityProtocol
from coterie_server.server import Server
from coterie_server.storage import StoreError, open_store
from tests.live.wire import Wire

SASL, PLAINTEXT = SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.PLAINTEXT
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


async def made(protocol: SecurityProtocol, environ: dict[str, str]) -> Authenticator:
    settings = Settings.load(environ=environ)
    listener = ListenerOptions(Address("127.0.0.1", 0), name="IN", protocol=protocol)
    async with open_store("memory:") as store:
        options = ServerOptions(settings=settings, listeners=(listener,))
        authenticators = await Authenticators.make(options, store)
        terms = authenticators.add_to(Terms("IN", protocol), listener)
        await authenticators.close()
    assert terms.authenticator is not None
    return terms.authenticator


@pytest.mark.asyncio
async def test_listener_has_the_mechanisms_and_sessions_that_are_set_for_it() -> None:
    environ = {
        "COTERIE_SASL_ENABLED_MECHANISMS": "PLAIN",
        "COTERIE_LISTENER_NAME_IN_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256, PLAIN",
        "COTERIE_LISTENER_NAME_IN_CONNECTIONS_MAX_REAUTH_MS": "5000",
        "COTERIE_LISTENER_NAME_IN_PLAIN_CONNECTIONS_MAX_REAUTH_MS": "7000",
    }
    authenticator = await made(SASL, environ)
    assert authenticator.is_required
    assert list(authenticator.terms.mechanisms) == ["SCRAM-SHA-256", "PLAIN"]
    assert authenticator.terms.session_ms == {"SCRAM-SHA-256": 5000, "PLAIN": 7000}


@pytest.mark.asyncio
async def test_where_clients_need_not_log_in_only_nodes_can() -> None:
    authenticator = await made(PLAINTEXT, {})
    assert not authenticator.is_required
    assert (list(authenticator.terms.mechanisms), list(authenticator.terms.hidden)) == (
        [],
        ["COTERIE-NODE"],
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"COTERIE_SASL_ENABLED_MECHANISMS": "OAUTHBEARER"}, "jwks.endpoint.url"),
        (
            {"COTERIE_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG": "user_ann=hunter2"},
            r"listener.name.in.plain.sasl.jaas.config: expected",
        ),
    ],
)
async def test_settings_that_do_not_fit_are_refused(environ: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=why) as caught:
        await made(SASL, environ)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["", "GSSAPI", "PLAIN,", "plain", "PLAIN SCRAM-SHA-256", "SCRAM-SHA-1"]
)
def test_unknown_mechanism_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="SCRAM-SHA-512 and OAUTHBEARER"):
        Settings.load(environ={"COTERIE_SASL_ENABLED_MECHANISMS": value})


@pytest.mark.parametrize("value", ["https://idp.example/jwks", "/etc/keys", "file://host/keys"])
def test_keys_come_from_a_file(value: str) -> None:
    with pytest.raises(SettingsError, match="expected file:///PATH"):
        Settings.load(overrides=[f"sasl.oauthbearer.jwks.endpoint.url={value}"])


@pytest.mark.asyncio
async def test_first_users_are_those_of_the_file_and_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:pencil\nSCRAM-SHA-256=[name=bob,password=x]\n")
    environ = {
        "COTERIE_BOOTSTRAP_USERS_FILE": str(tmp_path / "users"),
        "COTERIE_BOOTSTRAP_USER": "root",
        "COTERIE_BOOTSTRAP_PASSWORD": "toor",
    }
    found = await first_credentials(Settings.load(environ=environ))
    both = tuple(ScramMechanism)
    assert set(found) == {("ann", both[0]), ("ann", both[1]), ("bob", both[0])} | {
        ("root", each) for each in both
    }
    salts = {each.salt for each in found.values()}
    assert len(salts) == len(found)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"COTERIE_BOOTSTRAP_USER": "root"}, "together"),
        ({"COTERIE_BOOTSTRAP_PASSWORD": "toor"}, "together"),
        ({"COTERIE_BOOTSTRAP_USERS_FILE": "/nowhere/users"}, "No such file"),
    ],
)
async def test_first_users_that_can_not_be_known_are_refused(
    environ: dict[str, str], why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        await first_credentials(Settings.load(environ=environ))


@pytest.mark.asyncio
async def test_nodes_on_a_store_share_a_secret_and_others_do_not() -> None:
    options = ServerOptions(listeners=(ListenerOptions(Address("127.0.0.1", 0)),))
    secrets = []
    for _ in range(2):
        async with open_store("memory:") as store:
            for _ in range(2):
                authenticators = await Authenticators.make(options, store)
                await authenticators.close()
                secrets.append(authenticators.secret)
    assert secrets[0] == secrets[1] != secrets[2] == secrets[3]
    assert len(secrets[0]) == 32


@pytest.mark.asyncio
async def test_logins_that_wait_for_their_turn_are_answered_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two passwords are checked at a time."""
    started, may_end = threading.Semaphore(0), threading.Event()
    run = Job.run

    def slowly(job: Job) -> None:
        started.release()
        may_end.wait()
        run(job)

    monkeypatch.setattr(Job, "run", slowly)
    server = Server(options(SASL))
    await server.start()
    wires = [await Wire.open(server.address.port) for _ in range(5)]
    for wire in wires:
        await wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    asked = m.SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret")
    answers = [asyncio.create_task(wire.ask(asked, 2)) for wire in wires]
    await asyncio.to_thread(lambda: [started.acquire() for _ in range(2)])
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    may_end.set()
    assert [(await each).error_code for each in answers] == [0] * len(wires)
    await stopping
    for wire in wires:
        wire.close()


def options(protocol: SecurityProtocol) -> ServerOptions:
    users = f'{MODULE} required user_ann="secret";'
    settings = Settings.load(
        environ={
            "COTERIE_SASL_ENABLED_MECHANISMS": "PLAIN",
            "COTERIE_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG": users,
            "COTERIE_SHUTDOWN_TIMEOUT_MS": "600000",
        }
    )
    listener = ListenerOptions(Address("127.0.0.1", 0), name="IN", protocol=protocol)
    return ServerOptions(settings=settings, listeners=(listener,), http=None)


@pytest.mark.parametrize("protocol", [PLAINTEXT, SASL])
@pytest.mark.asyncio
async def test_clients_that_wait_for_a_node_are_hung_up_on_if_it_is_stopped_first(
    monkeypatch: pytest.MonkeyPatch, protocol: SecurityProtocol
) -> None:
    """Or the stop would wait for their answers, for which there is no node."""
    is_asked = asyncio.Event()

    async def wait(*_: object) -> None:
        is_asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("coterie_server.server.start_in_own_place", wait)
    server = Server(options(protocol))
    starting = asyncio.create_task(server.start())
    await is_asked.wait()
    wire = await Wire.open(server.address.port)
    if protocol is SASL:
        await wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 0)
        wire.send_bytes(b"\0\0\0\x0b\0ann\0secret")
    else:
        wire.send(m.MetadataRequest(topics=None), 4)
    for _ in range(10):  # until it is read
        await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait({starting})
    await wire.until_closed()
    wire.close()


@pytest.mark.asyncio
async def test_secret_that_is_none_is_called_damage() -> None:
    async with open_store("memory:") as store:
        await store.agree("cluster.secret", "no hex")
        with pytest.raises(StoreError, match=r"what it has as cluster\.secret was never agreed on"):
            await Authenticators.make(ServerOptions(settings=Settings()), store)
