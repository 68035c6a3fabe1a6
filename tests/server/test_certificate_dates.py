"""Certificates that clients refuse by their dates are warned of, as nothing else tells of them."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from coterie_server.certificate_dates import CertificateDates, Validity, validity_of
from coterie_server.tls import ServerTls, TlsOptions
from tests.support.certificates import name

LogLines = list[MutableMapping[str, Any]]

BEGINS = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
ENDS = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: dt.datetime) -> None:
        self.now = now

    def __call__(self) -> dt.datetime:
        """Tell the time."""
        return self.now


def made(begins: dt.datetime = BEGINS, ends: dt.datetime = ENDS) -> tuple[bytes, bytes]:
    """A certificate in DER, and it and its key in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    someone = name((NameOID.COMMON_NAME, "someone whose name is long" * 2))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(someone)
        .issuer_name(someone)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    return der, certificate.public_bytes(serialization.Encoding.PEM) + private


def warned(log: LogLines) -> list[str]:
    """The warnings, which are taken off the log."""
    found = [entry["event"] for entry in log if entry["log_level"] == "warning"]
    log.clear()
    return found


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (BEGINS, ENDS),
        (dt.datetime(1971, 2, 3, tzinfo=dt.UTC), dt.datetime(2049, 12, 31, tzinfo=dt.UTC)),
        (dt.datetime(2050, 1, 1, tzinfo=dt.UTC), dt.datetime(2999, 1, 1, 1, 2, 3, tzinfo=dt.UTC)),
    ],
)
def test_dates_are_read_in_either_form(begins: dt.datetime, ends: dt.datetime) -> None:
    """Those from 2050 on are written in another."""
    assert validity_of(made(begins, ends)[0]) == Validity(begins, ends)


def test_dates_are_those_that_openssl_reads() -> None:
    der, _ = made()
    read = x509.load_der_x509_certificate(der)
    assert validity_of(der) == (read.not_valid_before_utc, read.not_valid_after_utc)


@pytest.mark.parametrize(
    ("now", "warning"),
    [
        (BEGINS - DAY, ["the certificate is not valid yet"]),
        (BEGINS + DAY, []),
        (ENDS - 15 * DAY, []),
        (ENDS - 13 * DAY, ["the certificate expires soon"]),
        (ENDS + DAY, ["the certificate has expired"]),
    ],
)
def test_certificate_that_clients_refuse_is_warned_of_at_the_start(
    tmp_path: Path, log: LogLines, now: dt.datetime, warning: list[str]
) -> None:
    (tmp_path / "server.pem").write_bytes(made()[1])
    ServerTls(TlsOptions(keystore_location=str(tmp_path / "server.pem")), Clock(now))
    for told in log:
        assert told["certificate"] == f"ssl.keystore.location = {tmp_path}/server.pem"
        assert told["expires"] == "2026-06-01 12:00 UTC"
    assert warned(log) == warning


@pytest.mark.parametrize("kept", [0, 1, 3, 40])
def test_dates_that_can_not_be_read_are_no_hindrance(log: LogLines, kept: int) -> None:
    """Whether a certificate can be used is OpenSSL's to say."""
    dates = CertificateDates("here", Clock(ENDS + DAY))
    dates.begin(made()[0])
    assert warned(log) == ["the certificate has expired"]
    dates.begin(made()[0][:kept])
    dates.look()
    assert warned(log) == []


def test_certificate_that_expires_while_it_is_used_is_warned_of_once_at_a_time(
    tmp_path: Path, log: LogLines
) -> None:
    path, clock = tmp_path / "server.pem", Clock(BEGINS + DAY)
    path.write_bytes(made()[1])
    tls = ServerTls(TlsOptions(keystore_location=str(path)), clock)
    told = []
    for clock.now in (ENDS - 20 * DAY, ENDS - DAY, ENDS - DAY / 2, ENDS + DAY, ENDS + 2 * DAY):
        tls.reload_if_changed()
        told.append(warned(log))
    assert told == [[], ["the certificate expires soon"], [], ["the certificate has expired"], []]


def test_certificate_that_has_expired_is_warned_of_whenever_it_is_read(
    tmp_path: Path, log: LogLines
) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(made(ends=ENDS + 365 * DAY)[1])
    tls = ServerTls(TlsOptions(keystore_location=str(path)), Clock(ENDS + DAY))
    assert warned(log) == []
    path.write_bytes(made()[1])
    for _ in range(2):
        tls.reload()
        assert warned(log) == ["the certificate has expired"]
    assert tls.context.verify_mode is ssl.CERT_NONE
