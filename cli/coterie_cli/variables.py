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
    CA_FILE = "COTERIE_CA_FILE"
    CERT_FILE = "COTERIE_CERT_FILE"
    CONFIG_FILE = "COTERIE_CONFIG_FILE"
    DATA_DIR = "COTERIE_DATA_DIR"
    HTTP = "COTERIE_HTTP"
    HTTP_LISTEN = "COTERIE_HTTP_LISTEN"
    HTTP_TOKEN = "COTERIE_HTTP_TOKEN"  # noqa: S105 - the name, not the token
    HTTP_TOKEN_FILE = "COTERIE_HTTP_TOKEN_FILE"  # noqa: S105 - as above
    KEY_FILE = "COTERIE_KEY_FILE"
    KEY_PASSWORD = "COTERIE_KEY_PASSWORD"  # noqa: S105 - as above
    LISTEN = "COTERIE_LISTEN"
    MECHANISM = "COTERIE_MECHANISM"
    PASSWORD = "COTERIE_PASSWORD"  # noqa: S105 - the name, not the password
    PROFILE = "COTERIE_PROFILE"
    PROFILES = PROFILES_FILE
    SPARK_MASTER = "COTERIE_SPARK_MASTER"
    STORE = "COTERIE_STORE"
    TLS = "COTERIE_TLS"
    TOKEN = "COTERIE_TOKEN"  # noqa: S105 - as above
    TOKEN_FILE = "COTERIE_TOKEN_FILE"  # noqa: S105 - as above
    USER = "COTERIE_USER"


PASSWORD: Final = Variable.PASSWORD
