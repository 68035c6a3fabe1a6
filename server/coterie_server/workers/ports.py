"""Which ports a supervisor's workers listen on.

All of them listen on the ports that the server was given, where the system gives each new
connection to one of them; there, clients ask which node has their group.  Each has ports of its own
besides, which are what clients are then told.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from coterie_server.address import Address
from coterie_server.config.options import ServerOptions, WorkerOptions
from coterie_server.config.setting import INT32_MAX
from coterie_server.net.sockets import BACKLOG, can_share_ports, reserved
from coterie_server.server import ServerError, why_not
from coterie_server.serving.discovery import ANY_HOST

if TYPE_CHECKING:
    from coterie_server.config.listeners import ListenerOptions

__all__ = ["PortHolder", "options_of_workers"]

_PORT_MAX = 65_535


class PortHolder:
    """Keeps the ports of workers, also while one of them is being started again."""

    def __init__(self, *, can_share: bool | None = None) -> None:
        self._can_share = can_share_ports() if can_share is None else can_share
        self._sockets: list[socket.socket] = []
        self._held: list[Address] = []
        #: The sockets that workers inherit, where they can't have their own.
        self.inherited: dict[Address, tuple[int, ...]] = {}

    def hold(self, what: str, wanted: Address, *, is_shared: bool) -> Address:
        """Take an address, with any free port for port 0; raises `ServerError` if it is taken."""
        try:
            self._refuse_twice(wanted)
            opened = reserved(wanted.host, wanted.port)
            bound = Address(wanted.host, opened[0].getsockname()[1])
            if self._can_share:
                self._sockets += opened
            elif is_shared:
                self._inherit(bound, opened)
            else:
                _close(opened)  # the worker opens it itself
        except OSError as error:
            raise ServerError(
                f"{what} {wanted}: {why_not(error)}. Choose another address, or, for a worker's own"
                " port, another worker.port.offset."
            ) from error
        self._held.append(bound)
        return bound

    def _refuse_twice(self, wanted: Address) -> None:
        """The system would let two sockets that are only held have the same port."""
        for held in self._held:
            hosts = {held.host, wanted.host}
            if wanted.port == held.port and (len(hosts) == 1 or hosts & set(ANY_HOST)):
                raise OSError(errno.EADDRINUSE, "it is taken by another worker or listener")

    def _inherit(self, bound: Address, opened: list[socket.socket]) -> None:
        for each in opened:
            each.listen(BACKLOG)
        self._sockets += opened
        self.inherited[bound] = tuple(each.fileno() for each in opened)

    def close(self) -> None:
        """Let go of all ports."""
        _close(self._sockets)


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def options_of_workers(options: ServerOptions, ports: PortHolder) -> list[ServerOptions]:
    """What each worker is started with; raises `ServerError` if its ports can't be had."""
    settings = options.settings
    last = settings.node_id + settings.workers - 1
    if last > INT32_MAX:
        raise ServerError(
            f"node ids end at {INT32_MAX}, and the last worker's would be {last}. Choose a lower"
            " node.id."
        )
    ids = tuple(range(settings.node_id, settings.node_id + settings.workers))
    shared = {
        each.name: ports.hold("can't listen on", each.bind, is_shared=True)
        for each in options.listeners
    }
    http = options.http
    if http is not None:
        http = ports.hold("can't answer HTTP on", http, is_shared=True)
    return [
        replace(
            options,
            settings=replace(settings, node_id=node_id),
            listeners=tuple(
                _own_listener(each, shared[each.name], settings.worker_port_offset + index, ports)
                for each in options.listeners
            ),
            http=http,
            worker=WorkerOptions(
                ids,
                _own_http(options.http, settings.worker_port_offset + index, ports),
                ports.inherited,
            ),
        )
        for index, node_id in enumerate(ids)
    ]


def _own_listener(
    listener: ListenerOptions, shared: Address, distance: int, ports: PortHolder
) -> ListenerOptions:
    own = ports.hold("can't listen on", _beside(listener.bind, distance), is_shared=False)
    advertise = listener.advertise
    if advertise is not None:
        advertise = _beside(advertise, distance)
    return replace(listener, bind=own, advertise=advertise, shared=shared)


def _own_http(http: Address | None, distance: int, ports: PortHolder) -> Address | None:
    if http is None:
        return None
    return ports.hold("can't answer HTTP on", _beside(http, distance), is_shared=False)


def _beside(address: Address, distance: int) -> Address:
    """The address of a worker's own port; any free port if that was left to the system."""
    if not address.port:
        return address
    port = address.port + distance
    if port > _PORT_MAX:
        raise ServerError(
            f"there is no port {port}, which a worker would have beside {address}. Choose a lower"
            " port, or another worker.port.offset."
        )
    return Address(address.host, port)
