"""The catalogue of topics: requests go in, what is to be done comes out.

It reads no clock, draws no random numbers and awaits nothing.  Whoever runs it hands in the time,
stores the records, lets the replies go and tells the groups of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from coterie_server.topics.checks import CLUSTER_METADATA, check_new_name
from coterie_server.topics.create_partitions import create_partitions
from coterie_server.topics.create_topics import create_topics
from coterie_server.topics.delete_topics import delete_topics
from coterie_server.topics.ends import PartitionEnds
from coterie_server.topics.fetch import fetch
from coterie_server.topics.list_offsets import list_offsets
from coterie_server.topics.metadata import metadata
from coterie_server.topics.produce import produce
from coterie_server.topics.space import Space
from coterie_server.topics.topic_table import Seats, TopicTable
from coterie_server.topics.turn import Answer, TopicConfig, TopicIds, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.topics.records import TopicRow

__all__ = ["Catalogue", "TopicRefusal"]

Handler = Callable[[Turn, Any], Any]

_HANDLERS: Final[dict[type[Any], Handler]] = {
    CreatePartitionsRequest: create_partitions,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    MetadataRequest: metadata,
    ProduceRequest: produce,
}


class TopicRefusal(CoterieError):  # noqa: N818  # it says no, nothing went wrong
    """A topic that can't be as its operator wants it; `name` says why in one word."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class Catalogue:
    """The topics of a node; whoever knows of its groups' commits keeps their `ends`."""

    def __init__(
        self, config: TopicConfig, ids: TopicIds, ends: PartitionEnds | None = None
    ) -> None:
        self._config = config
        self._ids = ids
        self._ends = ends or PartitionEnds()
        self._table = TopicTable()
        self._seats = Seats(config.node_id)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many partitions each topic has; always the same mapping, kept up to date."""
        return self._table.counts

    @property
    def topics(self) -> Mapping[str, TopicRow]:
        """The topics by name, for whoever shows them; not to be changed."""
        return self._table.rows

    def recover(self, rows: Iterable[TopicRow]) -> None:
        """Forget everything and take up where the stored rows leave off."""
        self._table.clear()
        for row in rows:
            self._table.apply(row)

    def handle(self, message: Any, version: int, now_ms: int) -> Answer:  # noqa: ANN401  # any request
        """Take a request; all that comes of it is in the answer."""
        turn = self._turn(version, now_ms)
        return turn.answer(_HANDLERS[type(message)](turn, message))

    def ensure(self, name: str, partitions: int, now_ms: int) -> Answer:
        """See to it that a topic has so many partitions, or raise `TopicRefusal`.

        It is created, or grows, or stays as it is.  It never shrinks: who works on a partition
        could not be told that it is gone, and its offsets would be orphans.
        """
        turn = self._turn(0, now_ms)
        current = self._table.counts.get(name)
        if partitions != current:
            self._check(turn, name, partitions, current)
            if current is None:
                turn.create(name, partitions)
            else:
                turn.grow(name, partitions)
        return turn.answer()

    def _turn(self, version: int, now_ms: int) -> Turn:
        return Turn(self._config, self._ids, self._table, self._seats, self._ends, version, now_ms)

    def _check(self, turn: Turn, name: str, partitions: int, current: int | None) -> None:
        if current is None and name == CLUSTER_METADATA:
            raise TopicRefusal("invalid_name", f"A topic can't be called {CLUSTER_METADATA}.")
        problem = check_new_name(self._table, name) if current is None else None
        if problem is not None:
            raise TopicRefusal("invalid_name", str(problem.text))
        if partitions < 1:
            sentence = f"Topic '{name}' can't have {partitions} partitions; it needs one at least."
            raise TopicRefusal("too_few", sentence)
        if current is not None and partitions < current:
            sentence = (
                f"Topic '{name}' has {current} partitions and can't shrink to {partitions}; "
                f"ask for {current} or more, or delete it first."
            )
            raise TopicRefusal("shrink", sentence)
        problem = Space(turn).take(name, partitions, current or 0)
        if problem is not None:
            sentence = f"Topic '{name}' can't have {partitions} partitions: {problem.text}"
            raise TopicRefusal("too_many", sentence)
