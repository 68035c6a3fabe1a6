"""What goes wrong on the client's side; what a server answers is in `coterie_protocol.errors`.

CoterieError
└── CoterieClientError          everything that the client finds by itself
    ├── ConnectionFailedError   no connection came about (also a NetworkError, retriable)
    ├── ConnectionLostError     it broke with an answer due (also a NetworkError, retriable)
    ├── AnswerTimedOutError     no answer in time (also a RequestTimedOutError, retriable)
    ├── VersionNotSpokenError   no version in common (also an UnsupportedVersionError)
    ├── ServerNotProvenError    the server does not know the password that it asks for
    │                           (also a SaslAuthenticationFailedError)
    ├── TlsFailedError          no agreement on TLS, or a certificate that is not acceptable
    ├── ClientClosedError       the client was closed by its own user
    ├── ConfigurationError      an option has a value that makes no sense (also a ValueError)
    ├── UnexpectedAnswerError   an answer lacks what was asked for: the server's fault
    └── BatchFailedError        some items of a batch failed; `errors` says which, and how

Those that are also an error of Kafka's can be caught as either, and carry its code.  `retriable`
says whether the same call may succeed later, with nothing changed by the caller.
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
    "ServerNotProvenError",
    "TlsFailedError",
    "UnexpectedAnswerError",
    "VersionNotSpokenError",
]


class CoterieClientError(CoterieError):
    """Base of what the client finds by itself; the one argument is the whole sentence."""

    retriable: ClassVar[bool] = False

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)

    def __str__(self) -> str:
        return str(self.args[0])


class ConnectionFailedError(CoterieClientError, NetworkError):
    """No connection came about."""

    retriable = True


class ConnectionLostError(CoterieClientError, NetworkError):
    """The connection broke before the answer was there; the request may have been carried out."""

    retriable = True


class AnswerTimedOutError(CoterieClientError, RequestTimedOutError):
    """No answer came in time; the request may have been carried out."""

    retriable = True


class VersionNotSpokenError(CoterieClientError, UnsupportedVersionError):
    """Client and server have no version of the request in common that can carry it."""


class ServerNotProvenError(CoterieClientError, SaslAuthenticationFailedError):
    """The server could not prove that it knows the password: it may be an impostor."""


class TlsFailedError(CoterieClientError):
    """Client and server could not agree on TLS, or the certificate is not acceptable."""


class ClientClosedError(CoterieClientError):
    """The client was closed by its own user."""


class ConfigurationError(CoterieClientError, ValueError):
    """An option has a value that makes no sense."""


class UnexpectedAnswerError(CoterieClientError):
    """A well-formed answer lacks what was asked for."""


class BatchFailedError(CoterieClientError):
    """Some items of a batch failed, and the others did not; `errors` has the error of each."""

    #: So many failures are spelled out in the sentence.
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
