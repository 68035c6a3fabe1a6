"""A standby, as the restore that keeps its state up to date sees it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NoReturn, Protocol

from coterie_client.errors import GroupMisuseError
from coterie_client.membership import Position, Role
from coterie_client.partition import checked_lag
from coterie_client.wire.addresses import TopicPartition

__all__ = ["Standby", "StandbyKeeper"]


class StandbyKeeper(Protocol):
    """Keeps offsets, and knows what is kept up to date."""

    def fetch(self, partition: TopicPartition, token: int | None) -> Awaitable[Position | None]:
        """Fetch the committed offset; with a token, as long as that ownership stands."""
        ...

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Note how far behind a partition's state is; negative if that is not known any more."""
        ...

    def note_failure(self, partition: TopicPartition) -> None:
        """Note that its restore failed."""
        ...

    def holds(self, partition: TopicPartition) -> bool:
        """Whether the partition's state is to be kept up to date here."""
        ...


class Standby:
    """A partition that another member works on, and whose state is kept up to date here.

    It has no fencing token, and nothing can be committed for it.  When it comes back after it was
    taken away or promoted, that is another object.
    """

    __slots__ = ("_is_withdrawn", "_keeper", "generation", "number", "role", "topic")

    def __init__(
        self, keeper: StandbyKeeper, key: TopicPartition, role: Role, generation: int
    ) -> None:
        self._keeper = keeper
        self._is_withdrawn = False
        self.topic, self.number = key
        #: Why it is kept up to date; a standby may become a warm-up, and the other way round.
        self.role = role
        #: The group's generation in which it became one.
        self.generation = generation

    @property
    def key(self) -> TopicPartition:
        """Topic and number."""
        return self.topic, self.number

    @property
    def is_held(self) -> bool:
        """Whether its state is still to be kept up to date here, as far as this process knows."""
        return not self._is_withdrawn and self._keeper.holds(self.key)

    def lag(self, behind: int) -> None:
        """Tell how far behind the state is: how much is left to apply, as far as you know.

        The leader compares it with `acceptable_recovery_lag`.  Call it as often as you like, and
        from the first moment at which the number is known: until then, the state is not ready.
        """
        number = checked_lag(behind)
        if self.is_held:
            self._keeper.note_lag(self.key, number)

    async def committed(self) -> Position | None:
        """Return the offset that the partition's owner has committed; None if there is none yet."""
        return await self._keeper.fetch(self.key, None)

    async def commit(self, offset: int, metadata: str | None = None) -> NoReturn:
        """Refuse to commit: only work on a partition may."""
        del offset, metadata
        raise GroupMisuseError(
            f"{self} is a standby here, and another member works on it: commit in work, not in"
            " restore."
        )

    def restore_failed(self) -> None:
        """Note that its restore failed; for its owner."""
        self._keeper.note_failure(self.key)

    def withdraw(self) -> None:
        """Note that it is over; for its owner."""
        self._is_withdrawn = True

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"

    def __repr__(self) -> str:
        state = self.role.value if self.is_held else f"no {self.role.value} any more"
        return f"<Standby {self} generation={self.generation}, {state}>"
