"""Subjects as Java writes them: each was printed by `X500Principal.getName()` of Java 17."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Oid
from cryptography.x509.oid import ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security.distinguished_name import subject_of
from tests.support.certificates import Authority

Attribute = x509.NameAttribute
CN = Oid.COMMON_NAME

SUBJECTS: Sequence[tuple[x509.Name, str]] = [
    (
        x509.Name(
            [
                Attribute(Oid.COUNTRY_NAME, "DE"),
                Attribute(Oid.ORGANIZATION_NAME, "A, B & C"),
                Attribute(CN, 'x=y+z<>#;"\\'),
            ]
        ),
        'CN=x\\=y\\+z\\<\\>\\#\\;\\"\\\\,O=A\\, B & C,C=DE',
    ),
    (x509.Name([Attribute(CN, "  lead and trail  ")]), "CN=\\ \\ lead and trail\\ \\ "),
    (x509.Name([Attribute(CN, "   ")]), "CN=\\ \\ \\ "),
    (x509.Name([Attribute(CN, "\r x \r")]), "CN=\\\r\\ x\\ \\\r"),
    (x509.Name([Attribute(CN, "a\0b")]), "CN=a\\00b"),
    (x509.Name([Attribute(CN, "Grüße 日本 \U0001f600")]), "CN=Grüße 日本 \U0001f600"),
    (
        x509.Name(
            [
                Attribute(Oid.EMAIL_ADDRESS, "a@b.c"),
                Attribute(CN, "n"),
                Attribute(Oid.SERIAL_NUMBER, "7"),
                Attribute(Oid.SURNAME, "s"),
                Attribute(Oid.TITLE, "t"),
            ]
        ),
        "2.5.4.12=#0c0174,2.5.4.4=#0c0173,2.5.4.5=#130137,CN=n,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    (
        x509.Name(
            [
                Attribute(Oid.USER_ID, "u"),
                Attribute(Oid.DOMAIN_COMPONENT, "example"),
                Attribute(Oid.DOMAIN_COMPONENT, "com"),
                Attribute(Oid.STREET_ADDRESS, "s"),
                Attribute(Oid.LOCALITY_NAME, "l"),
                Attribute(Oid.STATE_OR_PROVINCE_NAME, "st"),
                Attribute(Oid.ORGANIZATIONAL_UNIT_NAME, "ou"),
            ]
        ),
        "OU=ou,ST=st,L=l,STREET=s,DC=com,DC=example,UID=u",
    ),
    (
        x509.Name(
            [
                x509.RelativeDistinguishedName(
                    [
                        Attribute(CN, "b"),
                        Attribute(Oid.ORGANIZATION_NAME, "a"),
                        Attribute(Oid.USER_ID, "zz"),
                    ]
                ),
                x509.RelativeDistinguishedName([Attribute(Oid.COUNTRY_NAME, "US")]),
            ]
        ),
        "C=US,CN=b+O=a+UID=zz",
    ),
    (x509.Name([]), ""),
    (x509.Name([Attribute(CN, "Gr\u00fc", _ASN1Type.BMPString)]), "CN=\\00G\\00r\\00\ufffd"),
    (x509.Name([Attribute(CN, "G\u00fc", _ASN1Type.UniversalString)]), "CN=#1c0800000047000000fc"),
    (
        x509.Name([Attribute(ObjectIdentifier("2.999.3.123456789"), "q")]),
        "2.999.3.123456789=#0c0171",
    ),
    (
        x509.Name([Attribute(Oid.DN_QUALIFIER, "dq"), Attribute(CN, "tab\there\nnewline")]),
        "CN=tab\there\nnewline,2.5.4.46=#13026471",
    ),
]


def certificate(subject: x509.Name, folder: Path) -> bytes:
    """A certificate with this subject, in DER."""
    files = Authority(folder).issue_to(subject)
    loaded = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    return loaded.public_bytes(Encoding.DER)


@pytest.mark.parametrize(("subject", "written"), SUBJECTS, ids=range(len(SUBJECTS)))
def test_subject_is_written_as_by_java(subject: x509.Name, written: str, tmp_path: Path) -> None:
    assert subject_of(certificate(subject, tmp_path)) == written


def test_certificate_that_is_cut_short_is_none(tmp_path: Path) -> None:
    whole = certificate(SUBJECTS[0][0], tmp_path)
    for size in range(200):
        with pytest.raises(ValueError, match="not a certificate"):
            subject_of(whole[:size])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        subject_of(data)
