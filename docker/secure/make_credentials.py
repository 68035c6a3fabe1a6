# noqa: INP001 - a script, not a package
"""Makes the certificates, passwords and tokens of `compose.secure.yaml` at its first start.

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
FOLDER: Final = Path("/credentials")
#: The image's user.
USER: Final = 10001
DAYS: Final = "3650"
#: By which names the coordinator is reached: in the network of the containers, and from outside.
NAMES: Final = "DNS:coordinator,DNS:localhost,IP:127.0.0.1"
#: Who logs in with a password, from outside; `eve` has no rights.
ADMIN: Final = "admin"
USERS: Final = (ADMIN, "ann", "eve")
#: Without these, clients in Python 3.13 refuse a certificate.
_IDENTIFIERS: Final = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S603, S607 - our words


def _own(path: Path, mode: int) -> None:
    """Give a file to the image's user."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)
    path.chmod(mode)


def _write(path: Path, text: str) -> None:
    """Write a file that only its user can read."""
    path.touch(mode=0o600)
    path.write_text(text)
    _own(path, 0o400)


# -- certificates ----------------------------------------------------------------------------------


def _authority(folder: Path) -> None:
    key, certificate = folder / "ca.key", folder / "ca.pem"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    key.chmod(0o600)
    subject = "/CN=Coterie's example authority"
    _openssl(
        *("req", "-x509", "-new", "-key", str(key), "-days", DAYS, "-subj", subject),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", str(certificate)),
    )


def _issue(authority: Path, folder: Path, extensions: str) -> None:
    """Make the certificate and key of a folder's owner, in one file, beside the authority's."""
    key, request, answer = (folder / f".{name}" for name in ("key", "request", "extensions"))
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    subject = f"/CN={folder.name}"
    _openssl("req", "-new", "-key", str(key), "-subj", subject, "-out", str(request))
    answer.write_text(f"{_IDENTIFIERS}{extensions}")
    signed = folder / ".certificate"
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", DAYS, "-extfile", str(answer)),
        *("-CA", str(authority / "ca.pem"), "-CAkey", str(authority / "ca.key")),
        *("-CAcreateserial", "-out", str(signed)),
    )
    trusted = folder / "ca.pem"
    trusted.write_bytes((authority / "ca.pem").read_bytes())
    _own(trusted, 0o444)
    _write(folder / "both.pem", signed.read_text() + key.read_text())
    for each in (key, request, answer, signed):
        each.unlink()


# -- passwords and tokens --------------------------------------------------------------------------


def _properties(user: str, password: str, authority: str) -> list[str]:
    """What a user's `client.properties` say, for Kafka's tools and Coterie's."""
    escaped = authority.replace("\n", r"\n")
    return [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        f'sasl.jaas.config={_LOGIN_MODULE} required username="{user}" password="{password}";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.certificates={escaped}",
    ]


def _log_ins(authority: Path, coordinator: Path, clients: Path) -> None:
    """Give each user a password, and the administrator the token for HTTP as well."""
    tokens = {name: secrets.token_urlsafe(32) for name in ("read-token", "admin-token")}
    for name, token in tokens.items():
        _write(coordinator / name, f"{token}\n")
    passwords = {user: secrets.token_urlsafe(24) for user in USERS}
    lines = [f"{user}:{password}\n" for user, password in passwords.items()]
    _write(coordinator / "users", "".join(lines))
    trusted = (authority / "ca.pem").read_text()
    for user, password in passwords.items():
        said = _properties(user, password, trusted)
        if user == ADMIN:
            said.append(f"coterie.http.token={tokens['admin-token']}")
        _write(clients / f"{user}.properties", "".join(f"{line}\n" for line in said))


def main(folder: Path) -> None:
    """Make all of it, unless it is there."""
    authority, coordinator, clients = (
        folder / name for name in ("authority", "coordinator", "clients")
    )
    done = authority / "done"
    if done.exists():
        return
    of_clients = "extendedKeyUsage=clientAuth\n"
    extensions = {
        coordinator: f"subjectAltName={NAMES}\nextendedKeyUsage=serverAuth,clientAuth\n",
        folder / ADMIN: of_clients,
        folder / "worker": of_clients,
    }
    for each in (authority, clients, *extensions):
        each.mkdir(parents=True, exist_ok=True)
    _authority(authority)
    for owner, wanted in extensions.items():
        _issue(authority, owner, wanted)
    _log_ins(authority, coordinator, clients)
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
