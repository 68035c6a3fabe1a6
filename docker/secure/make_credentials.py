# noqa: INP001 - a script, not a package
"""Makes the certificates and tokens of `compose.secure.yaml` when it is started for the first time.

Each container mounts only the folder with what it needs; the authority's key is in none of them.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

#: Where the volumes are, unless an argument says so.
FOLDER: Final = Path("/certificates")
#: The image's user.
USER: Final = 10001
DAYS: Final = "3650"
#: By which names the coordinator is reached: in the network of the containers, and from outside.
NAMES: Final = "DNS:coordinator,DNS:localhost,IP:127.0.0.1"


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S603, S607 - our words


def _own(path: Path, mode: int) -> None:
    """Let only the image's user read a file."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)
    path.chmod(mode)


def _authority(folder: Path) -> None:
    key, certificate = folder / "ca.key", folder / "ca.pem"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    key.chmod(0o600)
    subject = "/CN=Coterie's example authority"
    _openssl(
        *("req", "-x509", "-new", "-key", str(key), "-days", DAYS, "-subj", subject),
        *("-out", str(certificate)),
    )


def _issue(authority: Path, folder: Path, subject: str, extensions: str) -> None:
    """Make a certificate with its key, in one file, beside that of the authority."""
    key, request, answer = (folder / f".{name}" for name in ("key", "request", "extensions"))
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    _openssl("req", "-new", "-key", str(key), "-subj", subject, "-out", str(request))
    answer.write_text(extensions)
    signed = folder / ".certificate"
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", DAYS, "-extfile", str(answer)),
        *("-CA", str(authority / "ca.pem"), "-CAkey", str(authority / "ca.key")),
        *("-CAcreateserial", "-out", str(signed)),
    )
    trusted = folder / "ca.pem"
    trusted.write_bytes((authority / "ca.pem").read_bytes())
    _own(trusted, 0o444)
    both = folder / "both.pem"
    both.write_bytes(signed.read_bytes() + key.read_bytes())
    _own(both, 0o400)
    for each in (key, request, answer, signed):
        each.unlink()


def _token(path: Path) -> None:
    path.write_text(f"{secrets.token_urlsafe(32)}\n")
    _own(path, 0o400)


def main(folder: Path) -> None:
    """Make all of it, unless it is there."""
    authority, coordinator, worker = (
        folder / name for name in ("authority", "coordinator", "worker")
    )
    done = authority / "done"
    if done.exists():
        return
    for each in (authority, coordinator, worker):
        each.mkdir(parents=True, exist_ok=True)
    _authority(authority)
    _issue(
        authority,
        coordinator,
        "/CN=coordinator",
        f"subjectAltName={NAMES}\nextendedKeyUsage=serverAuth,clientAuth\n",
    )
    _issue(authority, worker, "/CN=worker", "extendedKeyUsage=clientAuth\n")
    for name in ("read-token", "admin-token"):
        _token(coordinator / name)
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
