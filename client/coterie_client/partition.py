"""A partition, as the work on it sees it."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable
from numbers import Real
from typing import Final, Protocol

from coterie_client.membership import PartitionLostError, Position
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.loads import LOAD_MAX

__all__ = ["Keeper", "Partition", "checked_lag"]

_OFFSET_MAX: Final = 2**63 - 1
#: What a string of Kafka's can carry; servers allow less (`offset.metadata.max.bytes`).
_METADATA_BYTES_MAX: Final = 2**15 - 1


class Keeper(Protocol):
    """Keeps offsets and knows what is owned."""

    def commit(self, partition: TopicPartition, token: int, position: Position) -> Awaitable[None]:
        """Commit an offset."""
        ...

    def fetch(self, partition: TopicPartition, token: int | None) -> Awaitable[Position | None]:
        """Fetch the committed offset; with a token, as long as that ownership stands."""
        ...

    def loss(self, partition: TopicPartition) -> PartitionLostError:
        """The error that says why the partition is not owned."""
        ...

    def owns(self, partition: TopicPartition, token: int) -> bool:
        """Whether this very ownership still stands."""
        ...

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Note how far behind a partition's state is; negative if that is not known any more."""
        ...

    def load(self, partition: TopicPartition, token: int, value: float) -> None:
        """Note how much work the partition is."""
        ...


class Partition:
    """A partition for as long as it is ours; when it comes back, that is another object."""

    __slots__ = ("_keeper", "_on_progress", "generation", "number", "position", "token", "topic")

    def __init__(self, keeper: Keeper, key: TopicPartition, token: int, generation: int) -> None:
        self._keeper = keeper
        self._on_progress: Callable[[], None] | None = None
        self.topic, self.number = key
        #: The fencing token, which Coterie's coordinator issues.  Send it with every write, and
        #: have writes refused whose token is lower than one seen before for this partition.
        self.token = token
        #: The group's generation in which it became ours.
        self.generation = generation
        #: What was committed last through this object.
        self.position: Position | None = None

    @property
    def key(self) -> TopicPartition:
        """Topic and number."""
        return self.topic, self.number

    @property
    def is_owned(self) -> bool:
        """Whether it is still ours, as far as this process knows."""
        return self._keeper.owns(self.key, self.token)

    async def committed(self) -> Position | None:
        """Return the committed offset, to go on from; None if nothing was committed yet.

        Raises `PartitionLostError` when the partition is not ours any more.
        """
        if not self.is_owned:
            raise self._keeper.loss(self.key)
        position = await self._keeper.fetch(self.key, self.token)
        if not self.is_owned:  # It was lost just after the answer came.
            raise self._keeper.loss(self.key)
        return position

    async def commit(self, offset: int, metadata: str | None = None) -> None:
        """Commit an offset, and return when it is stored.

        Many commits travel in one request, and a newer offset of a partition stands for the older
        ones that have not been sent yet.  Raises `PartitionLostError` when the partition is not
        ours any more.  If this call is cancelled, the offset may or may not be stored.
        """
        position = _position(offset, metadata)
        await self._keeper.commit(self.key, self.token, position)
        self.position = position
        self.progress()

    def lag(self, behind: int) -> None:
        """Tell how far behind the state is while `work` still restores it; 0 when it has caught up.

        The number counts what is left to apply: records, or whatever `acceptable_recovery_lag`
        counts.  Work that never calls this counts as having caught up.
        """
        number = checked_lag(behind)
        if self.is_owned:
            self._keeper.note_lag(self.key, number)
        self.progress()

    def progress(self) -> None:
        """Tell the watchdog that work goes on; a commit does so by itself."""
        if self._on_progress is not None:
            self._on_progress()

    def load(self, value: float) -> None:
        """Tell how much work this partition is, for groups that balance loads.

        It is a rate, such as records or milliseconds of processing in a second, in a unit that all
        members share.  Tell it whenever it was measured: it is smoothed over time.  Without
        `Weights` in the group's assignors it changes nothing, nor when the partition is not ours
        any more.
        """
        self._keeper.load(self.key, self.token, _load(value))

    def notify_progress(self, hook: Callable[[], None] | None) -> None:
        """Call the hook at every sign of progress; for the watchdog."""
        self._on_progress = hook

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"

    def __repr__(self) -> str:
        state = "owned" if self.is_owned else "not owned any more"
        return f"<Partition {self} generation={self.generation} token={self.token}, {state}>"


def checked_lag(behind: int) -> int:
    """Refuse what is no lag."""
    if isinstance(behind, bool) or not hasattr(behind, "__index__"):
        raise TypeError(f"lag must be a whole number, got {behind!r:.60}")
    number = operator.index(behind)
    if not 0 <= number <= _OFFSET_MAX:
        raise ValueError(f"lag must be a number from 0 to {_OFFSET_MAX}, got {number}")
    return number


def _load(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"load must be a number, got {value!r:.60}")
    if not 0 <= value <= LOAD_MAX:
        raise ValueError(f"load must be a number from 0 to {LOAD_MAX:g}, got {value!r:.60}")
    return float(value)


def _position(offset: int, metadata: str | None) -> Position:
    """Refuse here what would not fit a request: it would take other partitions' commits along."""
    if isinstance(offset, bool) or not hasattr(offset, "__index__"):
        raise TypeError(f"offset must be a whole number, got {offset!r:.60}")
    number = operator.index(offset)
    if not 0 <= number <= _OFFSET_MAX:
        raise ValueError(f"offset must be a number from 0 to {_OFFSET_MAX}, got {number}")
    if not isinstance(metadata, str | None):
        raise TypeError(f"metadata must be a string or None, got {metadata!r:.60}")
    text = metadata or ""
    if len(text.encode()) > _METADATA_BYTES_MAX:
        raise ValueError(f"metadata must be at most {_METADATA_BYTES_MAX} bytes long")
    return Position(number, text)
