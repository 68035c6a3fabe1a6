"""From when until when a certificate is valid, and who is told when it no longer is.

Clients refuse one that has expired, and the server has no other sign of it.  Python's ssl does not
say when that is, so it is read from the certificate's bytes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final, NamedTuple, final

from coterie_server.log.logger import get_logger

__all__ = ["CertificateDates", "Now", "Validity", "utc_now", "validity_of"]

_log = get_logger(__name__)

Now = Callable[[], dt.datetime]
"""Tells the time, with its zone."""

#: For how long before a certificate expires that is told.
_SOON: Final = dt.timedelta(days=14)

_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17


class Validity(NamedTuple):
    """The dates of a certificate."""

    begins: dt.datetime
    ends: dt.datetime


class _Element(NamedTuple):
    """An element of DER: where its content begins and ends."""

    tag: int
    begin: int
    end: int


def utc_now() -> dt.datetime:
    """The time by the system's clock."""
    return dt.datetime.now(dt.UTC)


@final
class CertificateDates:
    """The dates of the certificate that is in use; logs a warning once when they are a trouble."""

    def __init__(self, source: str, now: Now = utc_now) -> None:
        self._source, self._now = source, now
        self._validity: Validity | None = None
        self._told = ""

    def begin(self, der: bytes) -> None:
        """Watch the dates of this certificate from now on, and warn at once if need be."""
        try:
            self._validity = validity_of(der)
        except (ValueError, IndexError):  # OpenSSL takes some that are not written by the rules
            self._validity = None
        self._told = ""
        self.look()

    def look(self) -> None:
        """Warn if that is due by now, and was not done for this certificate."""
        if self._validity is None:
            return
        trouble = _trouble(self._validity, self._now())
        if trouble and trouble != self._told:
            begins, ends = (f"{each:%Y-%m-%d %H:%M} UTC" for each in self._validity)
            _log.warning(trouble, certificate=self._source, begins=begins, expires=ends)
        self._told = trouble


def _trouble(validity: Validity, now: dt.datetime) -> str:
    if now > validity.ends:
        return "the certificate has expired"
    if now > validity.ends - _SOON:
        return "the certificate expires soon"
    return "the certificate is not valid yet" if now < validity.begins else ""


def validity_of(der: bytes) -> Validity:
    """The dates of a certificate in DER; raises `ValueError` or `IndexError` if it is none."""
    certificate = _element(der, 0)
    contents = _element(der, certificate.begin)
    first = _element(der, contents.begin)
    # The version may be left out; the number, the algorithm and the issuer follow.
    number = _element(der, first.end) if first.tag == _VERSION else first
    algorithm = _element(der, number.end)
    issuer = _element(der, algorithm.end)
    validity = _element(der, issuer.end)
    begins = _element(der, validity.begin)
    return Validity(_time(der, begins), _time(der, _element(der, begins.end)))


def _element(der: bytes, at: int) -> _Element:
    length, begin = der[at + 1], at + 2
    if length & 0x80:  # then it says how many bytes have the length
        digits = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + digits], "big"), begin + digits
    return _Element(der[at], begin, begin + length)


def _time(der: bytes, element: _Element) -> dt.datetime:
    text = der[element.begin : element.end].decode("ascii")
    if element.tag == _UTC_TIME:  # its years have two digits, and are those from 1950 to 2049
        text = f"{'19' if text >= '50' else '20'}{text}"
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)
