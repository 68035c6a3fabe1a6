"""TLS files: what can be used, and what is said of what can't."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from coterie_server.tls import ServerTls, TlsError, TlsOptions, TlsWatch
from tests.support.certificates import Authority, Files

PASSWORD = "open sesame"  # noqa: S105  # of a key that is made for the test


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority) -> Files:
    return authority.issue()


def encrypted(files: Files) -> bytes:
    """The key, behind a password."""
    key = load_pem_private_key(files.key.read_bytes(), None)
    closed = BestAvailableEncryption(PASSWORD.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed)


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


WAYS: dict[str, Callable[[Files], dict[str, str]]] = {
    "one file": lambda files: {"keystore_location": str(files.both)},
    "two files": lambda files: {
        "keystore_location": str(files.certificate),
        "key_location": str(files.key),
    },
    "text": lambda files: {
        "certificate_chain": files.certificate.read_text(),
        "key": files.key.read_text(),
    },
    "a key behind a password": lambda files: {
        "certificate_chain": files.certificate.read_text(),
        "key": encrypted(files).decode(),
        "key_password": PASSWORD,
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_certificate_and_key_are_given_in_any_way(way: str, files: Files) -> None:
    context = ServerTls(TlsOptions(**WAYS[way](files))).context
    assert context.verify_mode is ssl.CERT_NONE
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("protocols", "first", "last"),
    [
        ("TLSv1.2,TLSv1.3", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        (" TLSv1.3 ", ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
    ],
)
def test_only_enabled_versions_are_spoken(
    files: Files, protocols: str, first: ssl.TLSVersion, last: ssl.TLSVersion
) -> None:
    options = TlsOptions(keystore_location=str(files.both), protocols=protocols)
    context = ServerTls(options).context
    assert (context.minimum_version, context.maximum_version) == (first, last)


def test_no_text_of_options_shows_key_or_password(files: Files) -> None:
    options = TlsOptions(key=files.key.read_text(), key_password=PASSWORD)
    assert "PRIVATE" not in repr(options)
    assert PASSWORD not in repr(options)


def other(files: Files, folder: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """What can't be used, and what is said of it: options by name, then the sentence."""
    foreign = Authority(folder, "foreign").issue()
    key = load_pem_private_key(files.key.read_bytes(), None)
    assert key is not None
    java = written(folder / "java", b"\xfe\xed\xfe\xed\0\0")
    packed = written(folder / "packed", pkcs12_of(files))
    closed = written(folder / "closed", files.certificate.read_bytes() + encrypted(files))
    damaged = files.certificate.read_bytes().replace(b"MI", b"AA", 1) + files.key.read_bytes()
    return {
        "nothing": ((), "there is no certificate for TLS. Set ssl.keystore.location to a PEM"),
        "no file": (
            ("keystore_location", "/none"),
            "ssl.keystore.location = /none can't be read: No such file or directory.",
        ),
        "Java's": (("keystore_location", java), "no certificate in PEM; it is a Java keystore"),
        "packed": (("keystore_location", packed), "no certificate in PEM; it may be PKCS#12"),
        "no key": (
            ("keystore_location", str(files.certificate)),
            "has no private key in PEM. Add it, or set ssl.key.location.",
        ),
        "another's key": (
            ("keystore_location", str(files.certificate), "key_location", str(foreign.key)),
            f"ssl.key.location = {foreign.key}: the key is not the certificate's.",
        ),
        "no password": (
            ("keystore_location", closed),
            "the key is encrypted, and ssl.key.password does not open it.",
        ),
        "wrong password": (
            ("keystore_location", closed, "key_password", "wrong"),
            "the key is encrypted, and ssl.key.password does not open it.",
        ),
        "damaged": (
            ("keystore_location", written(folder / "damaged", damaged)),
            "certificate or key can't be used: ",
        ),
        "OpenSSL's own form": (
            ("keystore_location", written(folder / "t", labelled(files, b"TRUSTED CERTIFICATE"))),
            "has no certificate in PEM.",
        ),
        "both": (
            ("keystore_location", str(files.both), "certificate_chain", "x"),
            "ssl.keystore.location and ssl.keystore.certificate.chain are both set; keep one.",
        ),
        "both keys": (
            ("keystore_location", str(files.both), "key_location", str(files.key), "key", "x"),
            "ssl.key.location and ssl.keystore.key are both set; keep one.",
        ),
        "no authority": (
            ("keystore_location", str(files.both), "client_auth", "required"),
            "and no authority is trusted to issue clients' certificates. Set ssl.truststore.locat",
        ),
        "empty authority": (
            (
                *("keystore_location", str(files.both), "client_auth", "requested"),
                *("truststore_location", str(files.key)),
            ),
            "has no certificate in PEM.",
        ),
    }


def labelled(files: Files, label: bytes) -> bytes:
    """Certificate and key in one file, with another label for the certificate."""
    return files.both.read_bytes().replace(b" CERTIFICATE", b" " + label)


def pkcs12_of(files: Files) -> bytes:
    key: Any = load_pem_private_key(files.key.read_bytes(), None)
    return pkcs12.serialize_key_and_certificates(
        b"x", key, None, None, BestAvailableEncryption(PASSWORD.encode())
    )


def test_what_cannot_be_used_is_said_in_a_sentence(files: Files, tmp_path: Path) -> None:
    for what, (options, sentence) in other(files, tmp_path).items():
        given = dict(zip(options[::2], options[1::2], strict=True))
        with pytest.raises(TlsError) as caught:
            ServerTls(TlsOptions(**given))
        assert sentence in str(caught.value), what
        assert PASSWORD not in str(caught.value)


def test_certificate_that_only_openssl_can_read_is_said_to_be_damaged(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes over some bytes that Python does not."""
    monkeypatch.setattr(ssl, "PEM_cert_to_DER_cert", lambda _: b"\xff".decode("ascii"))
    with pytest.raises(TlsError, match="the certificate can't be used: damaged"):
        ServerTls(TlsOptions(keystore_location=str(files.both)))


def test_nodes_are_shown_the_certificate_that_was_read_last(files: Files) -> None:
    tls = ServerTls(TlsOptions(keystore_location=str(files.both)))
    files.both.write_bytes(b"half of a file")
    tls.reload()
    assert tls.as_client().verify_mode is ssl.CERT_NONE
    assert tls.as_client() is tls.as_client()


@pytest.mark.asyncio
async def test_files_are_watched_on_whatever_is_wrong_with_one_of_them(
    files: Files, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, sound = (ServerTls(TlsOptions(keystore_location=str(files.both))) for _ in range(2))
    monkeypatch.setattr(tls, "reload", Mock(side_effect=RecursionError))
    watch = TlsWatch(every_s=0.01)
    watch.add(tls)
    watch.add(sound)
    before = sound.fingerprint
    files.both.write_bytes(authority.issue().both.read_bytes())
    await watch.reload()
    assert sound.fingerprint != before
