"""Principals: whom a connection acts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

__all__ = ["ANONYMOUS", "NODE_KIND", "USER_KIND", "Principal"]

USER_KIND: Final = "User"
#: Of the other nodes on the same store, who may do everything.
NODE_KIND: Final = "Node"

#: Groups are stored with whom they belong to, as a text of Kafka's protocol.
_BYTES_MAX: Final = 32_767


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a connection acts for, as Kafka writes it: `User:ann`."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND:NAME`; the name may hold further colons."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"expected a principal such as User:ann, got {text!r}")
        return cls(kind, name)

    @property
    def is_node(self) -> bool:
        """Whether it is another node on the same store."""
        return self.kind == NODE_KIND

    @property
    def can_be_stored(self) -> bool:
        """Whether its name, which others have chosen, fits into what is stored of its groups."""
        try:
            return len(str(self).encode()) <= _BYTES_MAX
        except UnicodeEncodeError:
            return False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


#: Of clients that need not say who they are.
ANONYMOUS: Final = Principal(USER_KIND, "ANONYMOUS")
