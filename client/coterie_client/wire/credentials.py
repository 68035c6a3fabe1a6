"""Settings for SASL: who this client is, and how it proves that."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn

from coterie_client import checks
from coterie_client.errors import ConfigurationError

__all__ = ["Sasl", "SaslMechanism", "TokenSource", "checked_token"]

#: Gives a token for OAUTHBEARER; called for each connection.
TokenSource = Callable[[], str | Awaitable[str]]


class SaslMechanism(StrEnum):
    """The SASL mechanisms that this client supports, by their registered names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL settings; neither the password nor the token is ever shown.

    `OAUTHBEARER` takes a `token`, and the other mechanisms a name and a password.
    """

    #: May be given by its name; becomes a `SaslMechanism`.
    mechanism: SaslMechanism | str
    username: str = ""
    password: str = field(default="", repr=False)
    #: A token, or what gives one whenever a connection is made: a coroutine function, or any other,
    #: which runs in a thread.
    token: str | TokenSource | None = field(default=None, repr=False, kw_only=True)
    #: What is sent along with a token (KIP-342).
    extensions: Mapping[str, str] = field(
        default_factory=dict, repr=False, hash=False, kw_only=True
    )

    def __post_init__(self) -> None:
        if self.mechanism not in tuple(SaslMechanism):
            checks.must_be("mechanism", f"one of {', '.join(SaslMechanism)}", self.mechanism)
        object.__setattr__(self, "mechanism", SaslMechanism(self.mechanism))
        if self.mechanism == SaslMechanism.OAUTHBEARER:
            self._check_token()
        else:
            self._check_password()

    def _check_password(self) -> None:
        if self.token is not None or self.extensions:
            raise ConfigurationError("token and extensions must be given with OAUTHBEARER only")
        checks.text("username", self.username)
        checks.secret("password", str, "a string", self.password)
        for name in ("username", "password"):
            if not _is_sendable(getattr(self, name)):
                raise ConfigurationError(
                    f"{name} must be encodable as UTF-8 and must not contain a zero byte"
                )

    def _check_token(self) -> None:
        if self.username or self.password:
            raise ConfigurationError(
                "username and password must be left out with OAUTHBEARER: the token says who it is"
            )
        if not callable(self.token):
            checked_token(self.token)
        if not isinstance(self.extensions, Mapping):
            checks.must_be("extensions", "a mapping of names to texts", self.extensions)
        given: tuple[tuple[object, object], ...] = tuple(self.extensions.items())
        for key, value in given:
            if not isinstance(key, str) or not _EXTENSION_KEY.fullmatch(key) or key == "auth":
                checks.must_be("each key of extensions", "letters, but not 'auth'", key)
            if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
                raise ConfigurationError(
                    f"{key} of extensions must be printable ASCII that is not empty"
                )


def checked_token(token: object) -> str:
    """A token that can be sent; the error does not show it."""
    if not isinstance(token, str):
        _refuse_token(f"got a value of type {type(token).__name__}" if token is not None else "")
    if not _TOKEN.fullmatch(token):
        _refuse_token("which has no spaces and line ends" if token else "got an empty one")
    return token


def _refuse_token(why: str) -> NoReturn:
    raise ConfigurationError(
        f"token must be a bearer token or a function that gives one{why and f', {why}'}"
    )


#: RFC 6750's b64token, as RFC 7628 has it.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_KEY: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def _is_sendable(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
