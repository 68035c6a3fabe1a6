"""Settings for TLS."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Final

from coterie_client import checks
from coterie_client.errors import ConfigurationError

__all__ = ["Tls", "is_plaintext_answer"]

#: OpenSSL's names for bytes that are no TLS.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


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
    #: The authorities as PEM text, instead of a file.
    cadata: str | None = field(default=None, repr=False)
    #: This client's certificate and key as PEM text, instead of files.
    certdata: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_types(self)
        if self.context is not None and (any(self._all_of_it) or not self.verify_hostname):
            raise ConfigurationError(
                "context must be given alone: it is used as it is, without files and options"
            )
        if self.cafile is not None and self.cadata is not None:
            raise ConfigurationError("cafile and cadata must not both be given")
        if self.certdata is not None and (self.certfile or self.keyfile):
            raise ConfigurationError("certdata must be given without certfile and keyfile")
        has_certificate = self.certfile is not None or self.certdata is not None
        if not has_certificate and (self.keyfile or self.key_password):
            raise ConfigurationError(
                "certfile must be given along with keyfile or key_password, got None"
            )

    @property
    def _all_of_it(self) -> tuple[object, ...]:
        files = (self.cafile, self.certfile, self.keyfile)
        return (*files, self.key_password, self.cadata, self.certdata)

    @cached_property
    def ready_context(self) -> ssl.SSLContext:
        """The context to use; files are read once, on first access."""
        if self.context is not None:
            return self.context
        try:
            context = ssl.create_default_context(cafile=self.cafile, cadata=self.cadata)
            self._load_own(context)
        # ssl.SSLError is an OSError as well; ValueError is for invalid paths.
        except (OSError, ValueError) as error:
            files = ", ".join(str(f) for f in (self.cafile, self.certfile, self.keyfile) if f)
            what = f"The TLS files ({files})" if files else "The certificates and keys"
            wanted = "Give readable PEM files." if files else "Give PEM text."
            raise ConfigurationError(f"{what} can't be used: {_why(error)}. {wanted}") from error
        context.check_hostname = self.verify_hostname
        # From Python 3.13 on, it would refuse authorities that other clients of Kafka accept: those
        # that `openssl req -x509` and `keytool` make do not say what their keys are for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile, self._key_password)
        elif self.certdata is not None:
            # OpenSSL's own loader, which Python uses, takes nothing but files.
            descriptor, path = tempfile.mkstemp(suffix=".pem")  # only its owner can read it
            try:
                with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123  # a descriptor
                    file.write(self.certdata)
                context.load_cert_chain(path, None, self._key_password)
            finally:
                os.unlink(path)  # noqa: PTH108  # as `mkstemp` gave it

    def _key_password(self) -> str:
        # Otherwise OpenSSL would prompt for the password of an encrypted key on the terminal.
        return self.key_password or ""


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):  # its text has a line of OpenSSL's source
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, UnicodeError):  # its text has the text
        return "it is not ASCII"
    return getattr(error, "strerror", None) or str(error)


def is_plaintext_answer(error: ssl.SSLError) -> bool:
    """Whether a TLS handshake failed since the server answered without TLS."""
    return error.reason in _NO_TLS


def _check_types(tls: Tls) -> None:
    if tls.context is not None:
        checks.instance_of("context", ssl.SSLContext, "an ssl.SSLContext", tls.context)
    for name in ("cafile", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and (not isinstance(path, str | PathLike) or path == ""):
            checks.must_be(name, "the path of a PEM file", path)
    for name in ("key_password", "cadata", "certdata"):
        text = getattr(tls, name)
        if text is not None:
            checks.secret(name, str, "a string", text)
    checks.flag("verify_hostname", tls.verify_hostname)
