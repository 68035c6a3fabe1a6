"""A directory against a node's own pages, on a real connection."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from coterie_client import Directory, DirectoryRefusedError, NoOwnerError, Tls
from coterie_client.errors import ClientClosedError, ConfigurationError, GroupMisuseError
from coterie_protocol.member_data import MemberData, join_member_data
from coterie_protocol.partitioner import partition_of_key
from coterie_server.http import TokenOptions, Tokens, owners
from tests.client.directory.served import server_of, serving, until, url, why_unknown
from tests.server.http.pages import Node
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

TOLD = join_member_data(None, MemberData("h1:80", {"zone": "z"}))


async def test_owner_of_a_key_is_found(world: WatchedWorld, node: Node) -> None:
    first, second = world.pair(user_data=TOLD)
    async with serving(node) as server, Directory(url(server), "g") as directory:
        for key in ("customer-17", "ß", b"\xff\0"):
            owner = await directory.owner(key=key)
            data = key.encode() if isinstance(key, str) else key
            assert owner.partition == partition_of_key(data, 4)
            assert owner.member == (first, second)[owner.partition % 2].id
            assert (owner.address, owner.labels) == ("h1:80", {"zone": "z"})
        assert len(directory.owners) == 4
        assert directory.topics == {"t": 4}
        assert directory.age is not None
        assert directory.trouble is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"key": 17}, r"key must be text or bytes, such as str\(17\), got 17"),
        ({"key": ["a"]}, "key must be text or bytes"),
        ({"partition": 0, "topic": 5}, "topic must be a string that is not empty, got 5"),
        ({"partition": "0"}, "partition must be a whole number"),
    ],
)
async def test_mistaken_arguments_are_refused_at_once(
    wrong: dict[str, Any], sentence: str, *, known: bool, world: WatchedWorld, node: Node
) -> None:
    if known:
        world.pair()
    async with serving(node) as server, Directory(url(server), "g") as directory:
        if known:
            await directory.owner(partition=0)
        with pytest.raises(ConfigurationError, match=sentence):
            await directory.owner(**wrong)


@pytest.mark.parametrize(
    ("mistyped", "sentence"),
    [
        ({"partition": 0, "topic": "order"}, "The group 'g' has no topic order; it has t"),
        ({"key": "a", "topic": "order"}, "The group 'g' has no topic order; it has t"),
        ({"partition": 4}, r"There is no t\[4\]: the topic has 4 partitions"),
    ],
)
async def test_what_the_group_does_not_have_is_said_to_be_missing(
    mistyped: dict[str, Any], sentence: str, world: WatchedWorld, node: Node
) -> None:
    world.pair()
    async with serving(node) as server, Directory(url(server), "g") as directory:
        await directory.owner(partition=0)
        with pytest.raises(NoOwnerError, match=sentence):
            await directory.owner(wait=0, **mistyped)


@pytest.mark.parametrize("wanted", [{"key": "a"}, {"partition": 0}, {"key": "a", "topic": "t"}])
async def test_group_without_members_is_said_to_have_none(
    wanted: dict[str, Any], world: WatchedWorld, node: Node
) -> None:
    for member in world.pair():
        member.leave()
    async with serving(node) as server, Directory(url(server), "g") as directory:
        await until(lambda: directory.age is not None)
        sentence = "The group 'g' has no members that work on a topic"
        with pytest.raises(NoOwnerError, match=sentence) as raised:
            await directory.owner(wait=0, **wanted)
        assert raised.value.state == "unowned"


async def test_caller_waits_until_a_partition_has_arrived(world: WatchedWorld, node: Node) -> None:
    first, second = world.pair()
    async with serving(node) as server, Directory(url(server), "g") as directory:
        assert (await directory.owner(partition=1)).member == second.id
        second.leave()
        node.listeners.tell("g")
        await until(lambda: not directory.owners["t", 1].is_owned)
        with pytest.raises(NoOwnerError, match=r"t\[1\] of the group 'g' is on its way") as raised:
            await directory.owner(partition=1, wait=0)
        assert raised.value.state == "on_its_way"
        waiting = asyncio.create_task(directory.owner(partition=1, wait=10))
        await asyncio.sleep(0)
        world.rejoin(first)
        node.listeners.tell("g")
        assert (await waiting).member == first.id


async def test_directory_goes_on_with_what_it_knew(world: WatchedWorld, node: Node) -> None:
    first, _ = world.pair()
    async with serving(node) as server:
        directory = Directory(url(server), "g")
        await directory.__aenter__()
        first_known = await directory.owner(partition=0)
        assert first_known.member == first.id
        port = server.port
    await until(lambda: directory.trouble)
    assert (await directory.owner(partition=0)).member == first.id
    before = directory.age
    assert before is not None
    await until(lambda: (directory.age or 0) > before)
    # It comes back as another process, whose numbers are others.
    first.leave()
    assert port is not None
    async with serving(node, port):
        await until(lambda: directory.trouble is None)
        await until(lambda: not directory.owners["t", 0].is_owned)
        await directory.aclose()


async def test_another_node_is_asked_where_one_is_silent(world: WatchedWorld, node: Node) -> None:
    world.pair()
    async with serving(node) as server:
        both = [f"http://127.0.0.1:{free_port()}", url(server)]
        async with Directory(both, "g") as directory:
            assert (await directory.owner(partition=0)).is_owned


async def test_silent_node_is_given_up(world: WatchedWorld, node: Node) -> None:
    world.pair()
    accepted: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    deaf = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = deaf.sockets[0].getsockname()[1]
    async with deaf, serving(node) as server:
        http = f"127.0.0.1:{port}, {url(server)}"
        async with Directory(http, "g", silence_timeout=0.5) as directory:
            assert (await directory.owner(partition=0)).is_owned
        for each in accepted:
            each.close()


async def test_group_that_is_made_later_is_found(world: WatchedWorld, node: Node) -> None:
    async with serving(node) as server, Directory(url(server), "g") as directory:
        with pytest.raises(NoOwnerError, match="no group 'g'") as raised:
            await directory.owner(partition=0, topic="t", wait=0.2)
        assert raised.value.state == "unowned"
        world.pair()
        assert (await directory.owner(partition=0, topic="t")).is_owned


async def test_topic_is_needed_where_there_are_several(world: WatchedWorld, node: Node) -> None:
    world.pair(topics=("t", "u"))
    async with serving(node) as server, Directory(url(server), "g") as directory:
        await directory.owner(partition=0, topic="t")
        with pytest.raises(ConfigurationError, match=r"topic must be given.*\(t, u\)"):
            await directory.owner(partition=0)


async def test_token_is_sent(world: WatchedWorld, node: Node) -> None:
    world.pair()
    server = server_of(node, Tokens(TokenOptions(read="secret")))
    async with server:
        async with Directory(url(server), "g", token=lambda: "secret") as directory:
            assert (await directory.owner(partition=0)).is_owned
        async with Directory(url(server), "g") as directory:
            with pytest.raises(DirectoryRefusedError, match="needs a token") as raised:
                await directory.owner(partition=0)
            assert (raised.value.name, raised.value.status) == ("unauthorized", 401)
        await server.app.shutdown()


@pytest.mark.parametrize("error", [RuntimeError("the user's own"), asyncio.CancelledError()])
async def test_change_is_told(world: WatchedWorld, node: Node, error: BaseException) -> None:
    _, second = world.pair()
    told: list[int] = []

    def count(owners: Any) -> None:
        told.append(sum(each.is_owned for each in owners.values()))
        raise error

    async with serving(node) as server, Directory(url(server), "g", on_change=count):
        await until(lambda: told == [4])
        second.leave()
        node.listeners.tell("g")
        await until(lambda: told == [4, 2])


async def test_nothing_is_left_after_closing(world: WatchedWorld, node: Node) -> None:
    world.pair()
    async with serving(node) as server:
        async with Directory(url(server), "g") as directory:
            await directory.owner(partition=0)
            waiting = asyncio.create_task(directory.owner(partition=0, topic="none", wait=60))
            await asyncio.sleep(0)
        with pytest.raises(ClientClosedError):
            await waiting
        with pytest.raises(ClientClosedError):
            await directory.owner(partition=0)
        assert not [each for each in asyncio.all_tasks() if "coterie" in each.get_name()]


async def test_directory_has_to_be_entered_once() -> None:
    directory = Directory("127.0.0.1:1", "g")
    with pytest.raises(GroupMisuseError):
        await directory.owner(partition=0)
    async with directory:
        with pytest.raises(GroupMisuseError):
            await directory.__aenter__()


async def test_cancelled_caller_leaves_the_watch_alone(world: WatchedWorld, node: Node) -> None:
    world.pair()
    async with serving(node) as server, Directory(url(server), "g") as directory:
        waiting = asyncio.create_task(directory.owner(partition=0, topic="none", wait=60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await directory.owner(partition=0)).is_owned


async def test_quiet_watch_is_known_to_be_alive(
    world: WatchedWorld, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "ALIVE_S", 0.02)
    world.pair()
    ages = [0.0]

    def has_heard_again() -> bool:
        assert directory.trouble is None
        assert directory.age is not None
        ages.append(directory.age)
        return ages[-1] < ages[-2]

    async with serving(node) as server, Directory(url(server), "g") as directory:
        await directory.owner(partition=0)
        for _ in range(3):
            await until(has_heard_again)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http": ""}, "at least one address"),
        ({"http": "ftp://h:1"}, "http must be"),
        ({"http": "http://h"}, "http must be"),
        ({"http": "http://h:1/path"}, "http must be"),
        ({"http": "http://user:secret@h:1"}, "no password"),
        ({"http": "http://h:99999"}, "http must be"),
        ({"http": [7]}, "http must be"),
        ({"group": ""}, "group must be"),
        ({"token": 7}, "token must be"),
        ({"tls": ssl.create_default_context()}, "tls must be a Tls"),
        ({"wait": -1}, "wait must be"),
        ({"wait": True}, "wait must be"),
        ({"silence_timeout": 0}, "silence_timeout must be"),
        ({"on_change": 7}, "on_change must be"),
    ],
)
async def test_senseless_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Directory(**{"http": "h:1", "group": "g"} | options)


async def test_tls_is_spoken(world: WatchedWorld, node: Node, tmp_path: Path) -> None:
    world.pair()
    authority = Authority(tmp_path)
    files = authority.issue("127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    server = server_of(node)
    await server.start_server(ssl=context)
    https = f"https://127.0.0.1:{server.port}"
    async with Directory(https, "g", tls=Tls(context=authority.client_context())) as directory:
        assert (await directory.owner(partition=0)).is_owned
    async with Directory(https, "g") as directory:
        async with asyncio.timeout(60):
            while "certificate verify failed" not in await why_unknown(directory):
                pass
    await server.app.shutdown()
    await server.close()
