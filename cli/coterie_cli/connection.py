"""How commands reach a node, by Kafka's protocol or by HTTP, and what they say when they can't."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from coterie_cli.access import http_access, security_of
from coterie_cli.daemon_threads import DaemonThreads
from coterie_cli.nearest import did_you_mean
from coterie_cli.node_http import (
    Access,
    NoAnswerError,
    RefusedError,
    ask,
    list_groups,
    path_of_group,
)
from coterie_cli.output import FAILED, MISUSED, UNREACHABLE, fail, say
from coterie_cli.refusals import sentence_of
from coterie_cli.target import Target
from coterie_cli.variables import BOOTSTRAP

if TYPE_CHECKING:
    from coterie_client.admin import Admin, GroupListing
    from coterie_client.errors import ConfigurationError, ConnectionFailedError

__all__ = [
    "access_to",
    "administer",
    "ask_about_group",
    "find_groups",
    "group_must_exist",
    "http_address",
    "http_addresses",
    "run_admin",
    "silenced",
]

T = TypeVar("T")

_LATER_MS: Final = 200


def run_admin(target: Target, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Let `work` use an administrator's client."""
    import asyncio

    from coterie_client.admin import Admin
    from coterie_client.admin.caller import Timing
    from coterie_client.wire import ConnectionLimits

    timeout_ms = max(1, round(target.timeout_s * 1000))
    # A connection that takes too long knows more to say than the call that waits for it.
    call_ms = timeout_ms + _LATER_MS
    timing = Timing(timeout_ms=call_ms, request_timeout_ms=call_ms, fail_fast=True)
    limits = ConnectionLimits(connect_timeout_ms=timeout_ms)

    async def run() -> T:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())
        security = security_of(target)
        async with Admin(target.bootstrap, security=security, timing=timing, limits=limits) as a:
            return await work(a)

    with silenced():
        return asyncio.run(run())


def administer(
    target: Target,
    work: Callable[[Admin], Awaitable[T]],
    *,
    group: str | None = None,
    topic: str | None = None,
) -> T:
    """Let `work` use an administrator's client; an error ends the command with a sentence.

    If `group` or `topic` turns out to be missing, the sentence names the nearest that exists.
    """
    from coterie_client.errors import (
        ConfigurationError,
        ConnectionFailedError,
        ConnectionLostError,
        CoterieClientError,
    )
    from coterie_protocol.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError
    from coterie_protocol.exceptions import CoterieError

    try:
        return run_admin(target, work)
    except ConfigurationError as error:
        fail(_sentence_of_option(error), MISUSED)
    except ConnectionFailedError as error:
        fail(_unreachable(error, target), UNREACHABLE)
    except CoterieError as error:
        if group is not None and isinstance(error, GroupIdNotFoundError):
            fail(_no_such("group", group, _known(target, _group_names)), FAILED)
        if topic is not None and isinstance(error, UnknownTopicOrPartitionError):
            fail(_no_such("topic", topic, _known(target, _topic_names)), FAILED)
        is_silent = isinstance(error, CoterieClientError) and error.retriable
        hint = ""
        if isinstance(error, ConnectionLostError) and not target.says_who and _wants_login(target):
            hint = " It wants to know who you are: tell it with --user or --config-file."
        fail(f"{sentence_of(error)}{hint}", UNREACHABLE if is_silent else FAILED)


def _wants_login(target: Target) -> bool:
    from coterie_cli.login_hint import wants_login

    with silenced():
        return wants_login(target)


def _sentence_of_option(error: ConfigurationError) -> str:
    sentence = str(error).rstrip(".")
    # To programmers it is a parameter, here it is an option.
    return f"--{sentence}." if sentence.startswith("bootstrap") else f"{sentence}."


async def group_must_exist(admin: Admin, group: str) -> None:
    """Raise `GroupIdNotFoundError` unless there is a group: it has no offsets, but may exist."""
    await admin.groups.describe(group)


async def _group_names(admin: Admin) -> list[str]:
    return [each.group_id for each in await admin.groups.list()]


async def _topic_names(admin: Admin) -> list[str]:
    return [each.name for each in await admin.topics.list()]


def _known(target: Target, names: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    from coterie_protocol.exceptions import CoterieError

    try:
        return run_admin(target, names)
    except CoterieError:  # then there is just no name to suggest
        return []


def _no_such(kind: str, name: str, known: Iterable[str]) -> str:
    return f"There is no {kind} {name!r}{did_you_mean(name, known)}"


def _unreachable(error: ConnectionFailedError, target: Target) -> str:
    from coterie_client.errors import WrongServerError

    sentence = str(error)
    if isinstance(error, WrongServerError):
        # The client speaks to programmers; here the way is an option.
        return sentence.replace("so connect with TLS", "so use --tls").replace(
            "so connect without it,", "so leave out --tls,"
        )
    if error.is_advertised:
        return f"{sentence} For Coterie's, that is its --advertise."
    if target.bootstrap == BOOTSTRAP:
        return f"{sentence} 'coterie serve' starts one; --bootstrap gives another address."
    return f"{sentence} Another address is given by --bootstrap."


def http_address(target: Target, group: str) -> str:
    """Where the node that coordinates a group answers HTTP: as given, or as it says itself."""
    if target.http is not None:
        return target.http
    found = administer(target, lambda admin: admin.groups.http_address(group), group=group)
    if found is None:
        fail(
            f"The node that coordinates {group!r} is not one of Coterie's, or answers no HTTP that"
            " can be reached from here. Say where it answers with --http.",
            UNREACHABLE,
        )
    return found


def http_addresses(target: Target) -> list[str]:
    """Where nodes answer HTTP, as far as that can be found out; a given one stands for all."""
    from coterie_protocol.exceptions import CoterieError

    if target.http is not None:
        return [target.http]
    try:
        found = run_admin(target, lambda admin: admin.groups.http_addresses())
    except CoterieError:
        return []
    return [address for address in found if address is not None]


def find_groups(target: Target, states: Iterable[str] = ()) -> list[dict[str, Any]]:
    """All groups, or those in some states, as the HTTP pages show them, by name.

    If a node can't be asked over HTTP, as a Kafka broker can't, they come by Kafka's protocol,
    without their generations and members.
    """
    addresses: tuple[str | None, ...] = (target.http,)
    if target.http is None:
        addresses = administer(target, lambda admin: admin.groups.http_addresses())
    try:
        if None not in addresses:
            # Each node lists the groups of all.
            rows = _first_list([address or "" for address in addresses], target, states)
            return sorted(rows, key=itemgetter("group"))
    except (NoAnswerError, RefusedError) as error:
        if target.http is not None:
            fail(str(error), UNREACHABLE if isinstance(error, NoAnswerError) else FAILED)
        if isinstance(error, RefusedError):
            say(f"Generations and members are left out: {error}", err=True)
    found = administer(target, lambda admin: admin.groups.list(states=states))
    return [_listed(each) for each in found]


def _first_list(
    addresses: Sequence[str], target: Target, states: Iterable[str]
) -> list[dict[str, Any]]:
    for address in addresses[:-1]:
        with suppress(NoAnswerError, RefusedError):
            return list_groups(address, target.timeout_s, states, access_to(target, address))
    last = addresses[-1]
    return list_groups(last, target.timeout_s, states, access_to(target, last))


def access_to(target: Target, address: str) -> Access:
    """What to show a node over HTTP; what can't be used ends the command with a sentence."""
    from coterie_client.errors import ConfigurationError

    try:
        return http_access(target, address)
    except ConfigurationError as error:
        fail(_sentence_of_option(error), MISUSED)


def _listed(group: GroupListing) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": None,
        "type": group.protocol_type or None,
        "protocol": None,
        "members": None,
    }


def _group_names_at(address: str, target: Target) -> list[str]:
    access = access_to(target, address)
    try:
        return [row["group"] for row in list_groups(address, target.timeout_s, access=access)]
    except (NoAnswerError, RefusedError):  # then there is just no name to suggest
        return []


def ask_about_group(
    target: Target,
    group: str,
    *rest: str,
    post: bool = False,
    body: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Ask a node about a group over HTTP; an error ends the command with a sentence."""
    if not group:
        # A path has no place for it; Kafka's protocol has, for offsets that belong to no group.
        fail("A group without a name has no members, and no page over HTTP.", FAILED)
    address = http_address(target, group)
    try:
        path = path_of_group(group, *rest)
        access = access_to(target, address)
        found = ask(address, path, timeout_s=target.timeout_s, post=post, body=body, access=access)
        return cast(Mapping[str, Any], found)
    except RefusedError as error:
        if error.name == "group_not_found":
            fail(_no_such("group", group, _group_names_at(address, target)), FAILED)
        fail(str(error), FAILED)
    except NoAnswerError as error:
        hint = " Say where the node answers HTTP with --http." if target.http is None else ""
        fail(f"{error}{hint}", UNREACHABLE)


@contextmanager
def silenced() -> Iterator[None]:
    """Keep client and server from logging between the lines that the command prints."""
    import logging

    client = logging.getLogger("coterie_client")
    level = client.level
    client.setLevel(logging.CRITICAL)
    try:
        # Where there is no structlog yet, there is no server that would use it.
        with _silenced_structlog() if "structlog" in sys.modules else nullcontext():
            yield
    finally:
        client.setLevel(level)


@contextmanager
def _silenced_structlog() -> Iterator[None]:
    import logging

    import structlog

    was_configured, before = structlog.is_configured(), structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()
