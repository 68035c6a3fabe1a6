"""What the two pure cores share: a request goes into a step, an outcome comes out.

The cores are `group` and `topics`.  A step changes what its core remembers, in memory and at once,
and collects what is to be done about it.  The shard that runs the core does that in a fixed order:
it stores the records, and only when they are durable sends the replies and tells of the events.
So no client ever learns of a change that a crash could undo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from coterie_protocol.exceptions import CoterieError

if TYPE_CHECKING:
    from coterie_protocol.journal import Event
    from coterie_server.security import Principal

__all__ = ["LimitHit", "Outcome", "Refusal", "Request", "Step", "fitting"]

R = TypeVar("R")

#: A text on the wire has 32,767 bytes at most, and so may a name that it quotes; each character
#: takes four bytes at most.
_TEXT_MAX: Final = 8_000


class Request(Protocol):
    """A request as the cores see it.

    A core answers it by naming this very object in an outcome, now or after any number of later
    steps.  It looks at nothing else of it.
    """

    @property
    def message(self) -> Any:  # noqa: ANN401  # any of the request dataclasses
        """One of the request dataclasses."""

    @property
    def version(self) -> int:
        """The version of the API in which it came, and in which its answer has to fit."""

    @property
    def client_id(self) -> str:
        """What the client calls itself; empty if it gives no name."""

    @property
    def host(self) -> str:
        """The client's address as Kafka prints it: `/127.0.0.1`."""

    @property
    def principal(self) -> Principal:
        """Whom the client acts for."""


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A client did not get something because the node holds as much as it may."""

    #: The setting that is the limit.
    setting: str
    limit: int
    #: What was not to be had.
    wanted: str


@dataclass(init=False, slots=True)
class Outcome(Generic[R]):
    """What is to be done after a step, in this order."""

    #: What to store.
    records: list[R]
    #: What to answer: requests of this step or of former ones, each with its response.
    replies: list[tuple[Request, Any]]
    #: What to write into the journal.
    events: list[Event]
    #: The limits that kept clients from getting what they asked for.
    limit_hits: tuple[LimitHit, ...]
    #: The date of what it stores, if that has one.  Events are told with the same: a store is held
    #: against the journal to see whether it has lost a commit.
    date_ms: int | None

    def __init__(self) -> None:  # the generated one takes three times as long
        self.records, self.replies, self.events = [], [], []
        self.limit_hits = ()
        self.date_ms = None

    def __bool__(self) -> bool:
        return bool(self.records or self.replies or self.events or self.limit_hits)


class Step(Generic[R]):
    """A step that is being taken, at one moment."""

    __slots__ = ("now_ms", "outcome")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.outcome: Outcome[R] = Outcome()

    def reply(self, request: Request, message: Any) -> None:  # noqa: ANN401  # any response
        """Answer a request once the records of this step are durable.

        The message may be `Unfinished`, made by `turns.begin`.
        """
        self.outcome.replies.append((request, message))

    def event(self, event: Event) -> None:
        """Have the journal told of something once the records of this step are durable."""
        self.outcome.events.append(event)

    def hit_limit(self, setting: str, limit: int, wanted: str) -> None:
        """Note that a limit kept a client from getting something."""
        self.outcome.limit_hits += (LimitHit(setting, limit, wanted),)


class Refusal(CoterieError):  # noqa: N818  # the answer is no; nothing went wrong
    """What an operator asked for can't be done now; `name` says why in one word."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


def fitting(text: str) -> str:
    """A text that may repeat what a client made up, short enough for any answer."""
    return text[:_TEXT_MAX]


def no_group(group_id: str) -> Refusal:
    """What is said of a group that does not exist."""
    return Refusal("group_not_found", f"There is no group {group_id!r} here.")
