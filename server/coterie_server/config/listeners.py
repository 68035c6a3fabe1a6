"""Listeners: where clients come in, and where those who came in there are told to connect.

They are told as much of HTTP, which a node answers at one address for all of its listeners.

One coordinator may have to be reached by different addresses: in a network of containers by the
name of its service, and from the machine around them by a published port.  It then has a listener
for each, and a client is told the address that belongs to the listener through which it asks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from coterie_server.address import Address
from coterie_server.security import SecurityProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DEFAULT_NAME",
    "ListenerError",
    "ListenerOptions",
    "NamedAddress",
    "make_listeners",
    "named_addresses",
    "protocols_by_name",
]

#: The name of a listener that is given none.
DEFAULT_NAME: Final = "default"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

#: All addresses of this machine. Clients can't connect to these.
_ANY_HOST: Final = ("0.0.0.0", "::", "")  # noqa: S104  # not bound to here, only recognised


class ListenerError(ValueError):
    """Listeners can't be as they are asked for; the text says what to do."""


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """An address and the name of the listener that it belongs to: `[NAME://]HOST:PORT`."""

    address: Address
    name: str = DEFAULT_NAME

    @classmethod
    def parse(cls, text: str) -> NamedAddress:
        """Read HOST:PORT, or NAME://HOST:PORT."""
        name, separator, rest = text.rpartition("://")
        if not separator:
            return cls(Address.parse(text))
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"expected a listener's name of letters, digits, '-' and '_', got {text!r}"
            )
        return cls(Address.parse(rest), name)

    def __str__(self) -> str:
        return f"{self.address}" if self.name == DEFAULT_NAME else f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """A listener."""

    #: Where it listens; port 0 stands for any that is free.
    bind: Address
    #: Where its clients are told to connect; None for where it listens.
    advertise: Address | None = None
    name: str = DEFAULT_NAME
    #: Where its clients are told to ask over HTTP; None for where HTTP is answered.
    advertise_http: Address | None = None
    #: Where the process listens together with the other workers of its supervisor; None if it is
    #: not a worker.
    shared: Address | None = None
    #: What its clients have to speak before Kafka's own protocol.
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __post_init__(self) -> None:
        if self.advertise is None and self.bind.host in _ANY_HOST:
            given = "HOST:PORT" if self.name == DEFAULT_NAME else f"{self.name}://HOST:PORT"
            raise ListenerError(
                f"Clients can't connect to {self}: they are told where to find this server. Say how"
                f" they reach it with --advertise {given}."
            )
        for advertised in (self.advertise, self.advertise_http):
            if advertised is not None and advertised.host in _ANY_HOST:
                raise ListenerError(
                    f"Clients can't connect to {advertised}, which stands for every address of this"
                    " machine. Advertise a name or an address by which they reach it."
                )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, and what it advertises."""
        found = (self.bind, self.advertise, self.advertise_http)
        return tuple(address for address in found if address is not None)

    def __str__(self) -> str:
        return str(NamedAddress(self.bind, self.name))


def named_addresses(setting: str, text: str) -> list[NamedAddress]:
    """Read the addresses in the value of a setting, or raise `ListenerError`."""
    try:
        return [NamedAddress.parse(each.strip()) for each in text.split(",") if each.strip()]
    except ValueError as error:
        raise ListenerError(f"{setting}: {error}") from None


def protocols_by_name(text: str) -> dict[str, SecurityProtocol]:
    """Read `listener.security.protocol.map`, or raise `ListenerError`; the names are in capitals.

    Those of the protocols are in it in any case.
    """
    found: dict[str, SecurityProtocol] = {}
    for each in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = (part.strip() for part in each.partition(":"))
        if not colon or not _NAME.fullmatch(name) or protocol.upper() not in list(SecurityProtocol):
            known = ", ".join(SecurityProtocol)
            raise ListenerError(
                f"listener.security.protocol.map: expected NAME:PROTOCOL, with one of {known}, got"
                f" {each!r}."
            )
        if name.upper() in found:
            raise ListenerError(f"listener.security.protocol.map has {name} twice; keep one.")
        found[name.upper()] = SecurityProtocol(protocol.upper())
    return {each: each for each in SecurityProtocol} | found


def make_listeners(
    listen: Sequence[NamedAddress],
    advertise: Sequence[NamedAddress],
    advertise_http: Sequence[NamedAddress] = (),
    *,
    protocol_map: str = "",
) -> tuple[ListenerOptions, ...]:
    """Give each listener its advertised addresses and its protocol, or raise `ListenerError`.

    They belong together by their names. A single listener need not be named for that.
    """
    if not listen:
        raise ListenerError("There is no listener: say where to serve clients, as HOST:PORT.")
    _check_names("listeners", listen)
    _check_addresses(listen)
    bound = {each.name: each.address for each in listen}
    clients = _by_listener("advertised addresses", advertise, list(bound))
    http = _by_listener("advertised addresses of HTTP", advertise_http, list(bound))
    protocols = protocols_by_name(protocol_map)
    return tuple(
        ListenerOptions(
            address,
            clients.get(name),
            name,
            http.get(name),
            protocol=_protocol(name, protocols, must_be_known=bool(protocol_map.strip())),
        )
        for name, address in bound.items()
    )


def _protocol(
    name: str, protocols: Mapping[str, SecurityProtocol], *, must_be_known: bool
) -> SecurityProtocol:
    """What a listener speaks.

    If there is a map, a name that is not in it may be a slip, by which secrets would be sent in
    the clear.
    """
    found = protocols.get(name.upper())
    if found is not None:
        return found
    if must_be_known and name != DEFAULT_NAME:
        raise ListenerError(
            f"listener.security.protocol.map has no protocol for the listener {name}: add"
            f" {name}:SSL, or another protocol."
        )
    return SecurityProtocol.PLAINTEXT


def _by_listener(
    what: str, given: Sequence[NamedAddress], listeners: Sequence[str]
) -> dict[str, Address]:
    if len(given) == len(listeners) == 1 and given[0].name == DEFAULT_NAME:
        return {listeners[0]: given[0].address}
    _check_names(what, given)
    for each in given:
        if each.name not in listeners:
            raise ListenerError(_belongs_to_none(each, listeners))
    return {each.name: each.address for each in given}


def _check_names(what: str, given: Sequence[NamedAddress]) -> None:
    # As in Kafka, capitals make no difference: settings name listeners in small letters.
    first = {each.name.lower(): each.name for each in reversed(given)}
    for key, times in Counter(each.name.lower() for each in given).items():
        name = first[key]
        if times > 1 and name == DEFAULT_NAME:
            last = next(each for each in reversed(given) if each.name == name)
            raise ListenerError(
                f"{times} {what} have no name: name all but one, as in OUTSIDE://{last.address}."
            )
        if times > 1:
            raise ListenerError(f"{times} {what} have the name {name!r}: give each its own.")


def _check_addresses(listen: Sequence[NamedAddress]) -> None:
    for address, times in Counter(each.address for each in listen).items():
        if times > 1 and address.port:  # port 0 is another one each time
            raise ListenerError(f"{times} listeners have the address {address}: give each its own.")


def _belongs_to_none(given: NamedAddress, names: Sequence[str]) -> str:
    known = " and ".join(names)
    if given.name == DEFAULT_NAME:
        return (
            f"The advertised address {given} does not say which listener it is for, and there are"
            f" {known}: write {names[0]}://{given}."
        )
    there = "the only listener is" if len(names) == 1 else "there are"
    return f"{given} is advertised for a listener that is not there; {there} {known}."
