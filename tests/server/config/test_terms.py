"""What holds at a listener, as its settings say."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coterie_server.address import Address
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.settings import Settings
from coterie_server.config.terms import make_terms
from coterie_server.net import UnknownSubjectError
from coterie_server.security import Principal, SecurityProtocol
from tests.support.certificates import Authority, name

#: Shown by its number, with its bytes in hexadecimal digits.
OTHER = x509.ObjectIdentifier("1.2.3.4")


@pytest.mark.parametrize("length", [16_000, 17_000])
def test_subject_is_a_principal_only_if_groups_can_be_stored_with_it(
    length: int, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    settings = Settings(ssl_keystore_location=str(authority.issue().both))
    listener = ListenerOptions(Address("127.0.0.1", 0), protocol=SecurityProtocol.SSL)
    identify = make_terms(settings, listener).identify
    assert identify is not None
    pem = authority.issue_to(name((OTHER, "x" * length))).certificate.read_bytes()
    certificate = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    if length == 16_000:
        assert identify(certificate) == Principal("User", f"1.2.3.4=#0c823e80{'78' * length}")
        return
    with pytest.raises(UnknownSubjectError, match="too long"):
        identify(certificate)
