"""Errors that the client detects itself; those of servers are in `coterie_protocol.errors`.

CoterieError
└── CoterieClientError          base of all of these
    ├── ConnectionFailedError   a connection could not be made (also a NetworkError, retriable)
    │   ├── UnknownHostError    the name of the host can't be resolved
    │   └── WrongServerError    what listens there speaks another protocol, or TLS is amiss
    ├── ConnectionLostError     it ended with an answer pending (also a NetworkError, retriable)
    ├── AnswerTimedOutError     no answer in time (also a RequestTimedOutError, retriable)
    ├── VersionNotSpokenError   no version in common (also an UnsupportedVersionError)
    ├── ServerNotProvenError    the server could not prove that it knows the password
    │                           (also a SaslAuthenticationFailedError)
    ├── TlsFailedError          the TLS handshake failed, or a certificate is not acceptable
    ├── ClientClosedError       the client was closed by its own user
    ├── ConfigurationError      an option has an invalid value (also a ValueError)
    ├── UnexpectedAnswerError   an answer lacks what was asked for: the server's fault
    ├── BatchFailedError        some items of a batch failed; `errors` has the error of each
    ├── NoOwnerError            a partition has no owner now (retriable)
    ├── DirectoryRefusedError   a node refuses to tell who owns what
    ├── GroupMisuseError        a call that the group's state does not allow (also a RuntimeError)
    ├── WorkCancelledError      work ended with a CancelledError that the group did not cause
    └── WorkStalledError        work made no progress for too long, and was cancelled

Those that are also an error of Kafka's can be caught as either, and carry its code.  `retriable`
tells whether the same call may succeed later without any change by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coterie_protocol.errors import (
    NetworkError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
from coterie_protocol.exceptions import CoterieError

__all__ = [
    "AnswerTimedOutError",
    "BatchFailedError",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "ConnectionLostError",
    "CoterieClientError",
    "DirectoryRefusedError",
    "GroupMisuseError",
    "NoOwnerError",
    "ServerNotProvenError",
    "TlsFailedError",
    "UnexpectedAnswerError",
    "UnknownHostError",
    "VersionNotSpokenError",
    "WorkCancelledError",
    "WorkStalledError",
    "WrongServerError",
]


class CoterieClientError(CoterieError):
    """Base of the errors that the client detects itself; its only argument is the message."""

    retriable: ClassVar[bool] = False

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)

    def __str__(self) -> str:
        return str(self.args[0])


class ConnectionFailedError(CoterieClientError, NetworkError):
    """A connection could not be made."""

    retriable = True
    #: Whether it was to an address that a server named, and at which none has ever been reached.
    is_advertised = False


class UnknownHostError(ConnectionFailedError):
    """The name of the host can't be resolved."""


class WrongServerError(ConnectionFailedError):
    """What listens there speaks another protocol, or one side uses TLS and the other does not.

    A group tries again, as after any failed connection; an administrator's client does not.
    """


class ConnectionLostError(CoterieClientError, NetworkError):
    """The connection ended before the answer came; the request may have been carried out."""

    retriable = True


class AnswerTimedOutError(CoterieClientError, RequestTimedOutError):
    """No answer came in time; the request may have been carried out."""

    retriable = True


class VersionNotSpokenError(CoterieClientError, UnsupportedVersionError):
    """Client and server have no version in common that can express the request."""


class ServerNotProvenError(CoterieClientError, SaslAuthenticationFailedError):
    """The server could not prove that it knows the password: it may be an impostor."""


class TlsFailedError(CoterieClientError):
    """The TLS handshake failed, or a certificate is not acceptable."""


class ClientClosedError(CoterieClientError):
    """The client was closed by its own user."""


class ConfigurationError(CoterieClientError, ValueError):
    """An option has an invalid value."""


class UnexpectedAnswerError(CoterieClientError):
    """A well-formed answer lacks what was asked for."""


class BatchFailedError(CoterieClientError):
    """Some items of a batch failed; `errors` has the error of each of them."""

    #: How many kinds of errors the message spells out, and how many items of each it names.
    SHOWN: ClassVar[int] = 3

    def __init__(self, errors: Mapping[Any, CoterieError], asked: int) -> None:
        kinds: dict[type[CoterieError], list[Any]] = {}
        for item, error in errors.items():
            kinds.setdefault(type(error), []).append(item)
        shown = [_of_a_kind(errors, items) for items in list(kinds.values())[: self.SHOWN]]
        if len(kinds) > self.SHOWN:
            shown.append(f"and {len(kinds) - self.SHOWN} other errors")
        super().__init__(f"{len(errors)} of {asked} failed: {'; '.join(shown)}")
        self.errors = dict(errors)
        self.asked = asked

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errors, self.asked)


def _of_a_kind(errors: Mapping[Any, CoterieError], items: list[Any]) -> str:
    """Some items' error, said once."""
    first, *others = items
    named = ", ".join(_item_text(item) for item in others[: BatchFailedError.SHOWN - 1])
    more = len(others) - (BatchFailedError.SHOWN - 1)
    also = f" (also {named}{f' and {more} more' if more > 0 else ''})" if others else ""
    return f"{_item_text(first)}{also}: {errors[first]}"


def _item_text(item: object) -> str:
    match item:
        case (str() as topic, int() as number):
            return f"{topic}[{number}]"
    return str(item)


class NoOwnerError(CoterieClientError):
    """A partition has no owner now."""

    retriable = True

    def __init__(self, sentence: str, state: str) -> None:
        super().__init__(sentence)
        #: `on_its_way`, `away`, `unowned`, or `unknown` while no coordinator has told of the group.
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.state)


class DirectoryRefusedError(CoterieClientError):
    """A node refuses to tell who owns what."""

    def __init__(self, sentence: str, name: str, status: int) -> None:
        super().__init__(sentence)
        #: The name that HTTP's answers have for it, and their status.
        self.name, self.status = name, status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.name, self.status)


class GroupMisuseError(CoterieClientError, RuntimeError):
    """A call that the group's state does not allow."""


class WorkCancelledError(CoterieClientError):
    """Work ended with a CancelledError although the group had not cancelled it."""


class WorkStalledError(CoterieClientError):
    """Work made no progress for too long, and was cancelled."""
