"""The file with an identity provider's keys, which may change while it is used."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coterie_server import key_file
from coterie_server.config.setting import SettingsError
from coterie_server.config.settings import Settings
from coterie_server.key_file import KeyFile, token_verifier


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


def pem(count: int = 1) -> bytes:
    keys = (ec.generate_private_key(ec.SECP256R1()).public_key() for _ in range(count))
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return b"".join(key.public_bytes(encoding, form) for key in keys)


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.pem", Clock()
    path.write_bytes(pem())
    keys = KeyFile(path, clock)
    assert len(keys.keys()) == 1
    path.write_bytes(pem(2))
    assert len(keys.keys()) == 1  # it is not looked at with each token
    clock.now_s += 1
    assert len(keys.keys()) == 2


def test_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.pem", Clock()
    path.write_bytes(pem())
    keys = KeyFile(path, clock)
    before = list(keys.keys())
    other = tmp_path / "new.pem"
    other.write_bytes(pem())
    other.replace(path)
    clock.now_s += 1
    assert list(keys.keys()) != before


@pytest.mark.parametrize("data", [None, b"", b"no keys", b"x" * 2_000_000])
def test_former_keys_hold_while_the_file_is_of_no_use(data: bytes | None, tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.pem", Clock()
    path.write_bytes(pem())
    keys = KeyFile(path, clock)
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    clock.now_s += 1
    assert len(keys.keys()) == 1
    path.write_bytes(pem(3))
    clock.now_s += 1
    assert len(keys.keys()) == 3


def test_no_key_holds_once_the_file_has_none(tmp_path: Path) -> None:
    """A provider whose only key was stolen takes that out before it has another."""
    path, clock = tmp_path / "keys.json", Clock()
    path.write_bytes(pem())
    keys = KeyFile(path, clock)
    path.write_bytes(b'{"keys": []}')
    clock.now_s += 1
    with structlog.testing.capture_logs() as lines:
        assert len(keys.keys()) == 0
        clock.now_s += 1
        assert len(keys.keys()) == 0
    assert [line["log_level"] for line in lines] == ["error"]
    path.write_bytes(pem(2))
    clock.now_s += 1
    assert len(keys.keys()) == 2


def test_bug_in_reading_keeps_no_client_from_logging_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "keys.pem", Clock()
    path.write_bytes(pem())
    keys = KeyFile(path, clock)
    path.write_bytes(pem(2))
    monkeypatch.setattr(key_file, "read_keys", lambda _: 1 // 0)
    clock.now_s += 1
    with structlog.testing.capture_logs() as lines:
        assert len(keys.keys()) == 1
    assert [line["event"] for line in lines] == ["keys not read again"]


@pytest.mark.parametrize("data", [None, b"no keys", b'{"keys": []}'])
def test_file_of_no_use_is_refused_at_the_start(data: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SettingsError, match=r"^sasl.oauthbearer.jwks.endpoint.url: .*keys.pem"):
        token_verifier(path, Settings())
