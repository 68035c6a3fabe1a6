# noqa: INP001 - a script's other half, not a package
"""The coordinators of `compose.ha.yaml`, as this machine reaches them."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

from engine import ANSWER_TIMEOUT_S, Engine, get

__all__ = ["FILE", "NODES", "Nodes", "free_ports"]

FILE: Final = "compose.ha.yaml"
#: The numbers of the nodes, and of the services.
NODES: Final = (1, 2, 3)
#: The file's variables.
PORTS: Final = tuple(f"{what}_PORT_{node}" for what in ("CLIENT", "HTTP") for node in NODES)
_HOST: Final = "127.0.0.1"
_FIND_COORDINATOR: Final = 10
#: Of these, each node coordinates some.
_SAMPLE: Final = [f"sample-{number}" for number in range(12)]


def free_ports(names: Sequence[str] = PORTS) -> dict[str, str]:
    """Ports of this machine that nothing listens on, by a compose file's variables."""
    sockets = [socket.create_server((_HOST, 0)) for _ in names]
    ports = {name: str(each.getsockname()[1]) for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


class Nodes:
    """Three coordinators in containers, by number."""

    def __init__(self, engine: Engine, ports: dict[str, str]) -> None:
        self._engine = engine
        self._ports = ports

    def container(self, node: int) -> str:
        """The container of a node."""
        (container,) = self._engine.containers(FILE, f"coordinator-{node}")
        return container

    def get(self, node: int, path: str) -> bytes | None:
        """The answer to a GET; None if there is none."""
        return get(_HOST, int(self._ports[f"HTTP_PORT_{node}"]), path)

    def is_ready(self, node: int) -> bool:
        """Whether a node serves."""
        return self.get(node, "/readyz") is not None

    def group(self, node: int, name: str) -> dict[str, Any]:
        """A group, as its node shows it."""
        shown: dict[str, Any] = json.loads(self.get(node, f"/v1/groups/{name}") or "{}")
        return shown

    def coordinator_of(self, group: str, asked: int) -> int | None:
        """The node that has a group, as another node says; None if neither can be told.

        It is told apart by its address: what clients on this machine are told to connect to.
        """
        try:
            told = _find_coordinator(int(self._ports[f"CLIENT_PORT_{asked}"]), group)
        except OSError:
            return None
        addresses = {f"{_HOST}:{self._ports[f'CLIENT_PORT_{node}']}": node for node in NODES}
        return addresses.get(told)

    def share(self) -> bool:
        """Whether all nodes say the same of who has which groups, and each has some."""
        told = [[self.coordinator_of(group, node) for group in _SAMPLE] for node in NODES]
        return all(each == told[0] for each in told) and set(told[0]) == set(NODES)


def _find_coordinator(port: int, group: str) -> str:
    """Ask a coordinator for a group's, as a client does; return the address in its answer."""
    name = group.encode()
    header = struct.pack(">hhih", _FIND_COORDINATOR, 0, 1, -1)
    request = header + struct.pack(">h", len(name)) + name
    with socket.create_connection((_HOST, port), timeout=ANSWER_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            (length,) = struct.unpack(">i", _read(stream, 4))
            answer = _read(stream, length)
    _, error, _, host_length = struct.unpack_from(">ihih", answer)
    if error:
        return ""
    host = answer[12 : 12 + host_length].decode()
    (told,) = struct.unpack_from(">i", answer, 12 + host_length)
    return f"{host}:{told}"


def _read(stream: Any, length: int) -> bytes:  # noqa: ANN401 - a file of a socket
    data: bytes = stream.read(length)
    if len(data) < length:
        raise ConnectionError("the connection was closed")
    return data
