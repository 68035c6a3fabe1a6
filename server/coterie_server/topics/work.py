"""A request that changes many rows: in several steps, so that it keeps nothing else waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from coterie_server.step import Outcome
from coterie_server.turns import Unfinished

if TYPE_CHECKING:
    from coterie_server.topics.records import Record
    from coterie_server.topics.step import Request, Step
    from coterie_server.turns import Making

__all__ = ["CHANGES_AT_ONCE", "Work"]

#: How many rows of rights are changed in one step: each is encoded, applied and logged.
CHANGES_AT_ONCE: Final = 50


@final
class Work:
    """What is left to do of a request; the last step has the reply.

    What its rule goes by has to stay as it is between the steps, so other requests about the same
    have to wait.
    """

    def __init__(self, step: Step, request: Request, making: Making[Any]) -> None:
        self._step = step
        self._request = request
        self._making = making
        self._steps = 0
        self.is_over = False

    def go_on(self, now_ms: int) -> Outcome[Record]:
        """Take the next step."""
        step = self._step
        step.now_ms, step.outcome = now_ms, Outcome()
        self._steps += 1
        try:
            next(self._making)
        except StopIteration as made:
            self.is_over = True
            # A long answer is encoded in turns, too.
            answer = made.value if self._steps == 1 else Unfinished(_made(made.value))
            step.reply(self._request, answer)
        return step.outcome


def _made(answer: Any) -> Making[Any]:  # noqa: ANN401  # to any request
    yield from ()
    return answer
