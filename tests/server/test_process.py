"""One process per data directory, and word to systemd."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from coterie_server.process import DirectoryInUseError, hold_directory, notify_systemd


def test_a_directory_is_made_and_held(tmp_path: Path) -> None:
    """A second process is refused with the number of the first."""
    directory = tmp_path / "deep" / "data"
    with hold_directory(directory):
        with pytest.raises(DirectoryInUseError, match=str(os.getpid())), hold_directory(directory):
            raise AssertionError("held twice")
        assert directory.is_dir()


def test_a_directory_is_free_again(tmp_path: Path) -> None:
    """Once the first is done, and whatever it left behind."""
    for _ in range(2):
        with hold_directory(tmp_path):
            pass


def test_systemd_is_told_if_it_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a datagram to the socket that the environment names."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        notify_systemd("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor if its socket is gone."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    notify_systemd("READY=1")
