"""The environment variables that commands read, and what stands in for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from coterie_cli.profiles import PROFILES_FILE

__all__ = ["BOOTSTRAP", "HTTP", "PASSWORD", "Variable"]

BOOTSTRAP: Final = "127.0.0.1:9092"
HTTP: Final = "127.0.0.1:9080"


class Variable(StrEnum):
    """An environment variable that a command reads, apart from the settings of `serve`.

    The list has to be complete: the daemon refuses to start if a variable looks like a setting but
    is neither a setting nor listed here.
    """

    ADVERTISE = "COTERIE_ADVERTISE"
    ADVERTISE_HTTP = "COTERIE_ADVERTISE_HTTP"
    BOOTSTRAP = "COTERIE_BOOTSTRAP"
    DATA_DIR = "COTERIE_DATA_DIR"
    HTTP = "COTERIE_HTTP"
    HTTP_LISTEN = "COTERIE_HTTP_LISTEN"
    HTTP_TOKEN = "COTERIE_HTTP_TOKEN"  # noqa: S105 - the name, not the token
    LISTEN = "COTERIE_LISTEN"
    PASSWORD = "COTERIE_PASSWORD"  # noqa: S105 - the name, not the password
    PROFILE = "COTERIE_PROFILE"
    PROFILES = PROFILES_FILE
    SPARK_MASTER = "COTERIE_SPARK_MASTER"
    STORE = "COTERIE_STORE"


PASSWORD: Final = Variable.PASSWORD
