"""Who asks for something, what was found of it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from coterie_server.security.acls import CLUSTER_NAME, Operation, ResourceType
from coterie_server.turns import Piece

if TYPE_CHECKING:
    import uuid

    from coterie_server.security.authorizer import Authorizer
    from coterie_server.security.principal import Principal
    from coterie_server.turns import Making

__all__ = [
    "LOOK_AGAIN",
    "PASS",
    "Asking",
    "Narrowed",
    "Refusal",
    "Refused",
    "TopicFacts",
    "Verdict",
    "leave_out",
]

T = TypeVar("T")

#: How many names are looked up in one turn of the event loop: about a millisecond.
CHECKS_AT_ONCE: Final = 200


class TopicFacts(Protocol):
    """What the node knows of topics, where a right depends on it."""

    @property
    def makes_topics(self) -> bool:
        """Whether Metadata makes topics that are not there."""

    @property
    def deletes_topics(self) -> bool:
        """Whether topics can be deleted at all."""

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic, as far as this node knows."""

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with an id; None if this node knows none."""


class _Word(Enum):
    PASS = "pass"  # noqa: S105  # no password
    LOOK_AGAIN = "look again"


#: All of a request may be asked.
PASS: Final = _Word.PASS
#: That depends on which topics there are, and this node may not have heard of all of them.
LOOK_AGAIN: Final = _Word.LOOK_AGAIN


class Refused(NamedTuple):
    """Nothing of a request may be asked; the answer says so."""

    answer: Any


class Narrowed(NamedTuple):
    """What of a request may be asked; `complete` makes its answer one to the whole request.

    It may return `Unfinished`.
    """

    message: Any
    complete: Callable[[Any], Any]


Verdict = Refused | Narrowed | _Word


def leave_out(
    message: Any,  # noqa: ANN401  # any request
    allowed: Collection[object],
    refused: Collection[object],
    tell: Callable[[Any], Any],
    *,
    of: str = "topics",
    told_in: str = "topics",
    asks_for_none: bool = False,
) -> Verdict:
    """What becomes of a request of which some items are allowed, and others are not.

    `of` is the request's field that has the items, `told_in` the answer's that tells of them, and
    `tell` gives the answer to a request for those that are refused.  An error of the whole request
    comes without items; where it counts even if no item is left, the request `asks_for_none`.
    """
    if not refused:
        return PASS
    answer = tell(replace(message, **{of: tuple(refused)}))
    if not allowed and not asks_for_none:
        return Refused(answer)
    told = getattr(answer, told_in)

    def complete(answer: Any) -> Any:  # noqa: ANN401  # to any request
        if getattr(answer, "error_code", 0):
            return answer
        return replace(answer, **{told_in: (*getattr(answer, told_in), *told)})

    return Narrowed(replace(message, **{of: tuple(allowed)}), complete)


class Refusal(NamedTuple):
    """What was asked for and is not allowed."""

    operation: Operation
    kind: ResourceType
    name: str


class Asking:
    """Who asks for something, and what that client may do; `note` is told what is refused."""

    __slots__ = ("_authorizer", "_host", "_note", "_principal", "is_certain", "topics")

    def __init__(
        self,
        authorizer: Authorizer,
        principal: Principal,
        host: str,
        topics: TopicFacts,
        note: Callable[[Refusal], object] = lambda _: None,
        *,
        is_certain: bool = True,
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._note = note
        self.topics = topics
        #: Whether the node knows of all topics that any client was told of.
        self.is_certain = is_certain

    def may(
        self, operation: Operation, kind: ResourceType, name: str, *, is_noted: bool = True
    ) -> bool:
        """Whether it is allowed; if not, that is noted if the resource was asked for by name."""
        if self._authorizer.allows(self._principal, self._host, operation, kind, name):
            return True
        if is_noted:
            self._note(Refusal(operation, kind, name))
        return False

    def may_in_cluster(self, operation: Operation, *, is_noted: bool = True) -> bool:
        """Whether something is allowed that concerns the whole cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_noted=is_noted)

    def sort(
        self,
        operation: Operation,
        kind: ResourceType,
        items: Iterable[T],
        name_of: Callable[[T], str],
    ) -> tuple[list[T], list[T]]:
        """The items that are allowed, and those that are not."""
        allowed: list[T] = []
        refused: list[T] = []
        for item in items:
            (allowed if self.may(operation, kind, name_of(item)) else refused).append(item)
        return allowed, refused

    def sort_in_turns(
        self,
        operation: Operation,
        kind: ResourceType,
        items: Iterable[T],
        name_of: Callable[[T], str],
        *,
        is_noted: bool = True,
    ) -> Making[tuple[list[T], list[T]]]:
        """The same, of so many that others would wait."""
        allowed: list[T] = []
        refused: list[T] = []
        piece = Piece(CHECKS_AT_ONCE)
        for item in items:
            may = self.may(operation, kind, name_of(item), is_noted=is_noted)
            (allowed if may else refused).append(item)
            if piece.is_whole():
                yield
        return allowed, refused

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What is allowed with a resource, as a bit for each operation's number."""
        return self._authorizer.operations(self._principal, self._host, kind, name)
