"""TLS, SASL, both or neither: how connections are protected."""

from __future__ import annotations

import dataclasses
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_client.wire.credentials import Sasl, SaslMechanism
from coterie_client.wire.tls import Tls
from coterie_client.wire.tokens import TokenFile

__all__ = ["PLAINTEXT", "Overrides", "Sasl", "SaslMechanism", "Security", "Tls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What options or environment variables say; None where they say nothing."""

    tls: bool | None = None
    cafile: str | PathLike[str] | None = None
    certfile: str | PathLike[str] | None = None
    keyfile: str | PathLike[str] | None = None
    key_password: str | None = dataclasses.field(default=None, repr=False)
    mechanism: str | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)
    token_file: str | PathLike[str] | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """TLS, SASL, both or neither: in Kafka's terms, a listener's security protocol."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    def __post_init__(self) -> None:
        if self.tls is not None:
            checks.secret("tls", Tls, "a Tls(...)", self.tls)
        if self.sasl is not None:
            checks.secret("sasl", Sasl, "a Sasl(...)", self.sasl)

    @classmethod
    def from_properties(cls, source: str | PathLike[str] | Mapping[str, str]) -> Self:
        """Read Kafka's `client.properties`, a file or what is in it.

        Keys that say nothing of security are left alone.
        """
        from coterie_client.wire.client_properties import (  # noqa: PLC0415  # few read such files
            read_properties,
            sasl_of,
            tls_of,
        )

        if isinstance(source, Mapping):
            return cls(tls_of(source), sasl_of(source))
        properties = read_properties(source)
        try:
            return cls(tls_of(properties), sasl_of(properties))
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}") from None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the variables `COTERIE_CONFIG_FILE`, `COTERIE_USER`, `COTERIE_PASSWORD` and others.

        An empty variable counts as one that is not set.
        """
        given = {k: v for k, v in (os.environ if environ is None else environ).items() if v}
        path = given.get(_CONFIG_FILE)
        base = cls() if path is None else cls.from_properties(path)
        found: dict[str, Any] = {
            name: given[variable] for name, variable in _VARIABLES.items() if variable in given
        }
        if "tls" in found:
            found["tls"] = _flag(found["tls"])
        return base.overridden(Overrides(**found))

    def overridden(self, by: Overrides) -> Self:
        """The same, except for what is said otherwise."""
        return type(self)(_tls(self.tls, by), _sasl(self.sasl, by))

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS context to connect with; None without TLS."""
        return None if self.tls is None else self.tls.ready_context

    @property
    def protocol(self) -> str:
        """Kafka's name of the security protocol, such as `SASL_SSL`."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.sasl is None else f"SASL_{transport}"


_CONFIG_FILE: Final = "COTERIE_CONFIG_FILE"
_VARIABLES: Final = {
    "tls": "COTERIE_TLS",
    "cafile": "COTERIE_CA_FILE",
    "certfile": "COTERIE_CERT_FILE",
    "keyfile": "COTERIE_KEY_FILE",
    "key_password": "COTERIE_KEY_PASSWORD",
    "mechanism": "COTERIE_MECHANISM",
    "username": "COTERIE_USER",
    "password": "COTERIE_PASSWORD",
    "token": "COTERIE_TOKEN",
    "token_file": "COTERIE_TOKEN_FILE",
}
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ConfigurationError(f"COTERIE_TLS must be true or false, got {text!r}")
    return _FLAGS[text.lower()]


def _tls(base: Tls | None, by: Overrides) -> Tls | None:
    files: dict[str, Any] = {}
    if by.cafile is not None:
        files |= {"cafile": by.cafile, "cadata": None}
    if by.certfile is not None:
        files |= {"certfile": by.certfile, "keyfile": None, "certdata": None, "key_password": None}
    own = {"keyfile": by.keyfile, "key_password": by.key_password}
    if by.certfile is not None or (base is not None and (base.certfile or base.certdata)):
        files |= {name: value for name, value in own.items() if value is not None}
    elif by.keyfile is not None:
        raise ConfigurationError("a file with a key must be given along with its certificate")
    if by.tls is False:
        return None
    if base is None and by.tls is None and not (by.cafile or by.certfile):
        return None
    return dataclasses.replace(base or Tls(), **files)


def _sasl(base: Sasl | None, by: Overrides) -> Sasl | None:
    token = TokenFile(Path(by.token_file)) if by.token_file is not None else by.token
    bearer = SaslMechanism.OAUTHBEARER
    if by.username is None and (by.mechanism == bearer or (token is not None and not by.mechanism)):
        if token is None:
            raise ConfigurationError("a token must be given for OAUTHBEARER")
        return Sasl(bearer, token=token)
    if by.username is None:
        if by.mechanism is None:
            return base
        if base is None or base.mechanism == bearer:
            raise ConfigurationError(f"a user must be given along with {by.mechanism}")
        return dataclasses.replace(base, mechanism=by.mechanism)
    mechanism = by.mechanism or (
        SaslMechanism.PLAIN if base is None or base.mechanism == bearer else base.mechanism
    )
    if mechanism == bearer:
        raise ConfigurationError("a user must not be given along with OAUTHBEARER")
    if by.password is None:
        raise ConfigurationError(f"the password of {by.username} must be given")
    return Sasl(mechanism, by.username, by.password)


#: Neither encrypted nor authenticated.
PLAINTEXT: Final = Security()
