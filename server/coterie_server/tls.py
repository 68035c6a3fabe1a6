"""Certificates and keys for listeners and HTTP: read from PEM, and read again when they change."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, final

from coterie_server.certificate_dates import CertificateDates, Now, utc_now
from coterie_server.frames_of_errors import without_frames
from coterie_server.log.logger import get_logger

__all__ = ["ServerTls", "TlsError", "TlsOptions", "TlsWatch", "reason_in_words"]

_log = get_logger(__name__)

#: How soon a new certificate is used, where no signal tells of it.
_LOOK_EVERY_S: Final = 5.0

_BLOCK: Final = re.compile(
    rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL
)
_KEYS: Final = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY")
_CERTIFICATE: Final = "CERTIFICATE"
#: OpenSSL's own forms, which lists of authorities may have; Java does not know them.
_OTHER_CERTIFICATES: Final = ("TRUSTED CERTIFICATE", "X509 CERTIFICATE")
_JAVA_KEYSTORE: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

#: What OpenSSL's reasons mean, for those who look after clients.
_REASONS: Final = {
    "HTTP_REQUEST": "the client speaks HTTP without TLS",
    "WRONG_VERSION_NUMBER": "the client speaks no TLS",
    "PACKET_LENGTH_TOO_LONG": "the client speaks no TLS",
    "RECORD_LAYER_FAILURE": "the client speaks no TLS",
    "UNEXPECTED_MESSAGE": "the client speaks no TLS",
    "UNSUPPORTED_PROTOCOL": "the client speaks only versions of TLS that are not enabled",
    "VERSION_TOO_LOW": "the client speaks only versions of TLS that are not enabled",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client accepts none of the versions of TLS",
    "NO_SHARED_CIPHER": "client and server have no cipher in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the server's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client, the server's certificate has expired",
}


class TlsError(Exception):
    """TLS can't be served with these files; the text is a sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Where certificate, key and authorities are, and which clients are accepted."""

    #: What the names of the settings begin with, for messages.
    prefix: str = "ssl"
    keystore_location: str = ""
    key_location: str = ""
    certificate_chain: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    truststore_location: str = ""
    truststore_certificates: str = ""
    client_auth: str = "none"
    protocols: str = "TLSv1.2,TLSv1.3"

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        found = (self.keystore_location, self.key_location, self.truststore_location)
        return tuple(filter(None, found))

    @property
    def certificate_source(self) -> str:
        """What says where the certificate is."""
        if self.keystore_location:
            return f"{self.prefix}.keystore.location = {self.keystore_location}"
        return f"{self.prefix}.keystore.certificate.chain"


class _Identity(NamedTuple):
    """A certificate with its chain and its key, in PEM, as they were when they were read."""

    chain: list[bytes]
    key: bytes
    #: What said where the key is.
    where: str

    def show(self, context: ssl.SSLContext, options: TlsOptions) -> None:
        """Have a context show the certificate."""
        try:
            with _as_file(b"\n".join((*self.chain, self.key))) as path:
                # Without a function, OpenSSL would ask for the password on the terminal.
                context.load_cert_chain(path, password=lambda: options.key_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise TlsError(_why_not_loaded(self.where, options.prefix, self.key, error)) from error

    def der(self) -> bytes:
        """The certificate itself."""
        try:
            return ssl.PEM_cert_to_DER_cert(self.chain[0].decode("ascii"))
        except ValueError:  # which OpenSSL may pass over
            raise TlsError(f"{self.where}: the certificate can't be used: damaged.") from None


class _Made(NamedTuple):
    """What is made of the files, all of it of one reading."""

    context: ssl.SSLContext
    #: Shows the same certificate to servers.
    client: ssl.SSLContext
    certificate: bytes


@final
class ServerTls:
    """The context for new connections; those at hand keep the one that they began with."""

    def __init__(self, options: TlsOptions, now: Now = utc_now) -> None:
        """Read the files, or raise `TlsError`."""
        self._options = options
        self._seen = self._look()
        self._complaint = ""
        self._made = _make(options)
        self._dates = CertificateDates(options.certificate_source, now)
        self._dates.begin(self._made.certificate)

    @property
    def context(self) -> ssl.SSLContext:
        """For connections that clients open."""
        return self._made.context

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate in hexadecimal digits."""
        return hashlib.sha256(self._made.certificate).hexdigest()

    def as_client(self) -> ssl.SSLContext:
        """A context that shows the certificate to servers, and leaves it to others to know them."""
        return self._made.client

    def reload_if_changed(self) -> None:
        """Read the files again if they have changed, or could not be used when last read.

        Warn of a certificate that has expired since.  It reads files, so it is called in a thread.
        """
        seen = self._look()
        if seen != self._seen or self._complaint:
            self._seen = seen
            self.reload()
        self._dates.look()

    def reload(self) -> None:
        """Read the files again; if they can't be used, keep what there is, and log why."""
        try:
            self._made = _make(self._options)
        except TlsError as error:
            if str(error) != self._complaint:
                _log.error("TLS files not usable, the former ones are kept", reason=str(error))
            self._complaint = str(error)
            return
        self._complaint = ""
        _log.info("TLS files read again", files=list(self._options.files))
        self._dates.begin(self._made.certificate)

    def _look(self) -> tuple[object, ...]:
        """What is different once a file has changed, or has been replaced by another."""
        found: list[object] = []
        for file in self._options.files:
            try:
                status = Path(file).stat()
            except OSError as error:
                found.append(error.errno)
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev))
        return tuple(found)


def reason_in_words(error: BaseException) -> str:
    """Why a client could not shake hands; the error holds on to nothing else from now on.

    Its frames have the buffers of the connection, and the error again: only the garbage collector
    would free them.
    """
    without_frames(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        plain = (reason or str(error)).replace("_", " ").lower()
        return _REASONS.get(reason, plain)
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "the client took too long"
    return "the client has hung up"


def _make(options: TlsOptions) -> _Made:
    identity = _read_identity(options)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    identity.show(client, options)
    context = _make_context(options)
    identity.show(context, options)
    return _Made(context, client, identity.der())


def _make_context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    enabled = {_VERSIONS[each.strip()] for each in options.protocols.split(",")}
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)
    # A client that renegotiates again and again would cost more than one that connects anew.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # A resumed session would count for as long as its ticket, whatever has changed meanwhile.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    _load_authorities(context, options)
    return context


def _read_identity(options: TlsOptions) -> _Identity:
    prefix = options.prefix
    where, data = _certificates(options)
    keys = _blocks(data, *_KEYS)
    if options.key_location and options.key:
        raise TlsError(f"{prefix}.key.location and {prefix}.keystore.key are both set; keep one.")
    if options.key_location:
        where = f"{prefix}.key.location = {options.key_location}"
        keys = _blocks(_read(where, options.key_location), *_KEYS)
    elif options.key:
        where = f"{prefix}.keystore.key"
        keys = _blocks(options.key.encode(), *_KEYS)
    if not keys:
        raise TlsError(f"{where} has no private key in PEM. Add it, or set {prefix}.key.location.")
    return _Identity(_blocks(data, _CERTIFICATE), keys[0], where)


def _certificates(options: TlsOptions) -> tuple[str, bytes]:
    """The certificate with its chain, and what said so."""
    prefix, where = options.prefix, options.certificate_source
    if options.keystore_location and options.certificate_chain:
        raise TlsError(
            f"{prefix}.keystore.location and {prefix}.keystore.certificate.chain are both set; keep"
            " one."
        )
    if options.keystore_location:
        data = _read(where, options.keystore_location)
    elif options.certificate_chain:
        data = options.certificate_chain.encode()
    else:
        raise TlsError(
            f"there is no certificate for TLS. Set {prefix}.keystore.location to a PEM file with"
            " the certificate and its key."
        )
    if not _blocks(data, _CERTIFICATE):
        raise TlsError(f"{where} has no certificate in PEM{_other_format(data)}.")
    return where, data


def _load_authorities(context: ssl.SSLContext, options: TlsOptions) -> None:
    context.verify_mode = _CLIENT_AUTH[options.client_auth]
    if context.verify_mode is ssl.CERT_NONE:
        return
    # As in Java, whatever is trusted need not be a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    prefix = options.prefix
    where, data = f"{prefix}.truststore.certificates", options.truststore_certificates.encode()
    if options.truststore_location:
        where = f"{prefix}.truststore.location = {options.truststore_location}"
        data = _read(where, options.truststore_location)
    elif not data:
        raise TlsError(
            f"{prefix}.client.auth is {options.client_auth}, and no authority is trusted to issue"
            f" clients' certificates. Set {prefix}.truststore.location."
        )
    authorities = _blocks(data, _CERTIFICATE, *_OTHER_CERTIFICATES)
    if not authorities:
        raise TlsError(f"{where} has no certificate in PEM{_other_format(data)}.")
    try:
        context.load_verify_locations(cadata=b"\n".join(authorities).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(f"{where} has a damaged certificate: {_plain(error)}.") from error


def _read(where: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TlsError(f"{where} can't be read: {why}.") from error


def _blocks(data: bytes, *labels: str) -> list[bytes]:
    return [each[0] for each in _BLOCK.finditer(data) if each["label"].decode() in labels]


def _other_format(data: bytes) -> str:
    if data.startswith(_JAVA_KEYSTORE):
        return "; it is a Java keystore, which keytool can export"
    return "; it may be PKCS#12 or DER, which openssl can convert" if data.startswith(_DER) else ""


def _why_not_loaded(where: str, prefix: str, key: bytes, error: OSError | ValueError) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return f"{where}: the key is not the certificate's."
    if b"ENCRYPTED" in key:
        return f"{where}: the key is encrypted, and {prefix}.key.password does not open it."
    return f"{where}: certificate or key can't be used: {_plain(error)}."


def _plain(error: OSError | ValueError) -> str:
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if reason else "it is damaged"


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A file with these bytes, for as long as it takes to read: OpenSSL takes keys from files only.

    On Linux it is in memory.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("tls")
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as file:  # only this user may read it
        file.write(data)
        file.flush()
        yield file.name


@final
class TlsWatch:
    """Reads TLS files again when they change, and when it is told to."""

    def __init__(self, every_s: float = _LOOK_EVERY_S) -> None:
        self._every_s = every_s
        self._watched: list[ServerTls] = []
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, tls: ServerTls | None) -> None:
        """Watch the files of one more, if it is one."""
        if tls is not None:
            self._watched.append(tls)

    def start(self) -> None:
        """Begin to look, unless there is nothing to look at."""
        if self._watched:
            self._task = asyncio.create_task(self._look_again_and_again())

    async def reload(self) -> None:
        """Read all files again, now."""
        for each in self._watched:
            await _done_in_thread(each.reload)

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            for each in self._watched:
                await _done_in_thread(each.reload_if_changed)


async def _done_in_thread(read: Callable[[], None]) -> None:
    """Whatever is wrong with a file, the next one is read, and this one when it has changed."""
    try:
        await asyncio.to_thread(read)
    except Exception:  # noqa: BLE001
        _log.exception("a bug: TLS files were not read again, the former ones are kept")
