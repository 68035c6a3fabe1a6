"""Errors that the client detects itself; those of servers are in `coterie_protocol.errors`.

CoterieError
└── CoterieClientError          base of all of these
    ├── ConnectionFailedError   a connection could not be made (also a NetworkError, retriable)
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
    "GroupMisuseError",
    "ServerNotProvenError",
    "TlsFailedError",
    "UnexpectedAnswerError",
    "VersionNotSpokenError",
    "WorkCancelledError",
    "WorkStalledError",
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

    #: How many errors the message spells out.
    SHOWN: ClassVar[int] = 3

    def __init__(self, errors: Mapping[Any, CoterieError], asked: int) -> None:
        shown = [f"{item}: {error}" for item, error in list(errors.items())[: self.SHOWN]]
        if len(errors) > self.SHOWN:
            shown.append(f"and {len(errors) - self.SHOWN} more")
        super().__init__(f"{len(errors)} of {asked} failed: {'; '.join(shown)}")
        self.errors = dict(errors)
        self.asked = asked

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errors, self.asked)


class GroupMisuseError(CoterieClientError, RuntimeError):
    """A call that the group's state does not allow."""


class WorkCancelledError(CoterieClientError):
    """Work ended with a CancelledError although the group had not cancelled it."""


class WorkStalledError(CoterieClientError):
    """Work made no progress for too long, and was cancelled."""
