"""Clients who have not said yet who they are, and who make room for others where there is none.

They shake hands, or have to log in.  Without this, a stranger could fill `max.connections` and shut
out all who have a password.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

__all__ = ["Strangers"]

_Key = tuple[str, str]


@final
class Strangers:
    """Those connections, by address and listener."""

    def __init__(self) -> None:
        #: Of each address at each listener, in the order in which they came.
        self._found: dict[_Key, dict[object, Callable[[], None]]] = {}
        self._keys: dict[object, _Key] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, connection: object) -> bool:
        return connection in self._keys

    def add(
        self, connection: object, address: str, listener: str, drop: Callable[[], None]
    ) -> None:
        """Take note of a connection, and of what drops it and gives up its place at once."""
        key = self._keys[connection] = address, listener
        self._found.setdefault(key, {})[connection] = drop

    def discard(self, connection: object) -> None:
        """Forget a connection: its client is known, or gone."""
        key = self._keys.pop(connection, None)
        if key is None:
            return
        del self._found[key][connection]
        if not self._found[key]:
            del self._found[key]

    def make_room(self, counts: Callable[[str, str], bool]) -> bool:
        """Drop the oldest from where the most are, so that a flood leaves others in.

        `counts` says of an address and a listener whether one connection less there is of use.
        """
        most = max(
            (key for key in self._found if counts(*key)),
            key=lambda key: len(self._found[key]),
            default=None,
        )
        if most is None:
            return False
        drop = next(iter(self._found[most].values()))
        drop()
        return True
