"""Where a request goes, and the partitions that it names.  Pure.

The membership machine and the administrator speak of nodes and lanes as well, without knowing how
they are reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, TypeAlias

__all__ = ["ANY", "Anybody", "Lane", "NodeAddress", "TopicPartition"]

#: A topic's name and the number of one of its partitions.
TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The host and port at which a node is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Anybody(Enum):
    """The type of `ANY`."""

    ANY = auto()

    def __str__(self) -> str:
        return "any node"


#: Any node that can be reached.
ANY: Final = Anybody.ANY


class Lane(StrEnum):
    """Which of the connections to a node a request takes.

    A node answers the requests on a connection in order, and the answer to a JoinGroup may take
    minutes: what keeps the membership alive in the meantime needs a connection of its own.
    """

    GROUP = "group"
    KEEPALIVE = "keepalive"
