"""How much more the catalogue can hold, taken piece by piece in the course of one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_server.topics.checks import Problem, check_size

if TYPE_CHECKING:
    from coterie_server.topics.turn import Turn

__all__ = ["Space"]


class Space:
    """The places that are left, also for a request that only asks what would be."""

    __slots__ = ("_partitions", "_topics", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._topics = len(turn.table.rows)
        self._partitions = turn.table.partitions

    def take(self, name: str, partitions: int, before: int = 0) -> Problem | None:
        """Take places for a topic that had so many partitions before, or say why there are none."""
        config, turn = self._turn.config, self._turn
        if (problem := check_size(config, partitions)) is not None:
            turn.note_hit("topic.max.partitions", config.max_partitions, name)
            return problem
        if not before and self._topics >= config.max_topics:
            turn.note_hit("max.topics", config.max_topics, name)
            text = f"max.topics is {config.max_topics}, and there are {self._topics} already."
            return Problem(ErrorCode.POLICY_VIOLATION, text)
        in_all = self._partitions + partitions - before
        if in_all > config.max_partitions_in_all:
            turn.note_hit("max.partitions", config.max_partitions_in_all, name)
            text = f"max.partitions is {config.max_partitions_in_all}, and there would be {in_all}."
            return Problem(ErrorCode.POLICY_VIOLATION, text)
        self._topics += not before
        self._partitions = in_all
        return None
