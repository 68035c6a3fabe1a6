"""Settings for TLS and SASL."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from os import PathLike
from typing import Final

from coterie_client import checks
from coterie_client.errors import ConfigurationError

__all__ = ["PLAINTEXT", "Sasl", "SaslMechanism", "Security", "Tls"]


class SaslMechanism(StrEnum):
    """The SASL mechanisms that this client supports, by their registered names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True)
class Tls:
    """TLS settings; the defaults trust the system's certificate authorities.

    A `context` is used as it is, and excludes all other settings.
    """

    context: ssl.SSLContext | None = None
    #: PEM file of the certificate authorities to trust, instead of the system's.
    cafile: str | PathLike[str] | None = None
    #: PEM files of this client's own certificate and key, if the server asks for one.
    certfile: str | PathLike[str] | None = None
    keyfile: str | PathLike[str] | None = None
    key_password: str | None = field(default=None, repr=False)
    #: Whether the certificate must match the host name. Its chain is always verified.
    verify_hostname: bool = True

    def __post_init__(self) -> None:
        _check_tls(self)
        files = (self.cafile, self.certfile, self.keyfile, self.key_password)
        if self.context is not None and (any(files) or not self.verify_hostname):
            raise ConfigurationError(
                "context must be given alone: it is used as it is, without files and options"
            )
        if self.certfile is None and (self.keyfile or self.key_password):
            raise ConfigurationError(
                "certfile must be given along with keyfile or key_password, got None"
            )

    @cached_property
    def ready_context(self) -> ssl.SSLContext:
        """The context to use; files are read once, on first access."""
        if self.context is not None:
            return self.context
        try:
            context = ssl.create_default_context(cafile=self.cafile)
            if self.certfile is not None:
                context.load_cert_chain(self.certfile, self.keyfile, self._key_password)
        # ssl.SSLError is an OSError as well; ValueError is for invalid paths.
        except (OSError, ValueError) as error:
            files = ", ".join(str(f) for f in (self.cafile, self.certfile, self.keyfile) if f)
            raise ConfigurationError(
                f"The TLS files ({files}) can't be used: {_why(error)}. Give readable PEM files."
            ) from error
        context.check_hostname = self.verify_hostname
        return context

    def _key_password(self) -> str:
        # Otherwise OpenSSL would prompt for the password of an encrypted key on the terminal.
        return self.key_password or ""


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL settings; the password is never shown."""

    #: May be given by its name; becomes a `SaslMechanism`.
    mechanism: SaslMechanism | str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        checks.text("username", self.username)
        checks.secret("password", str, "a string", self.password)
        if self.mechanism not in tuple(SaslMechanism):
            checks.must_be("mechanism", f"one of {', '.join(SaslMechanism)}", self.mechanism)
        object.__setattr__(self, "mechanism", SaslMechanism(self.mechanism))
        for name in ("username", "password"):
            if not _is_sendable(getattr(self, name)):
                raise ConfigurationError(
                    f"{name} must be encodable as UTF-8 and must not contain a zero byte"
                )


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):  # its text has a line of OpenSSL's source
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


def _check_tls(tls: Tls) -> None:
    if tls.context is not None:
        checks.instance_of("context", ssl.SSLContext, "an ssl.SSLContext", tls.context)
    for name in ("cafile", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and (not isinstance(path, str | PathLike) or path == ""):
            checks.must_be(name, "the path of a PEM file", path)
    if tls.key_password is not None:
        checks.secret("key_password", str, "a string", tls.key_password)
    checks.flag("verify_hostname", tls.verify_hostname)


def _is_sendable(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


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

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS context to connect with; None without TLS."""
        return None if self.tls is None else self.tls.ready_context

    @property
    def protocol(self) -> str:
        """Kafka's name of the security protocol, such as `SASL_SSL`."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.sasl is None else f"SASL_{transport}"


#: Neither encrypted nor authenticated.
PLAINTEXT: Final = Security()
