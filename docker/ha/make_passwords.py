# noqa: INP001 - a script, not a package
"""Makes the passwords of `compose.ha.yaml` when it is started for the first time.

Each container mounts only the folder with what it needs: PostgreSQL the passwords of all roles, and
the containers that run as one of the roles a file for `PGPASSFILE`, which has to be their user's
alone.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

#: Where the volumes are.
FOLDER: Final = Path("/passwords")
SUPERUSER: Final = "postgres"
#: The roles of `postgresql-roles.sql`, and the folder of those who use each.
ROLES: Final = {"coterie_migrate": "migrate", "coterie_node": "node"}
#: The image's user.
USER: Final = 10001


def _write(path: Path, text: str, mode: int, user: int) -> None:
    """Write a file in one go, so that one that is there is whole."""
    new = path.with_name(f".{path.name}")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - with a mode
        file.write(text)
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), user, user)
        os.fsync(file.fileno())
    new.replace(path)


def _password(role: str) -> str:
    path = FOLDER / "database" / role
    if not path.exists():
        # PostgreSQL's user has another number in each image, and only its container has this.
        _write(path, secrets.token_urlsafe(32), 0o444, os.geteuid())
    return path.read_text()


def main() -> None:
    """Make what is missing."""
    _password(SUPERUSER)
    for role, folder in ROLES.items():
        _write(FOLDER / folder / "pgpass", f"*:*:*:{role}:{_password(role)}\n", 0o400, USER)


if __name__ == "__main__":
    main()
