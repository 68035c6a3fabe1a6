"""What went wrong with PostgreSQL, in sentences, and what may be tried again."""

from __future__ import annotations

import ssl
from typing import Final

import asyncpg

from coterie_server.frames_of_errors import without_frames
from coterie_server.storage.abc import StoreError

__all__ = [
    "ENDED_AT_ONCE",
    "FAILURES",
    "LOCKED",
    "ReadOnlyError",
    "StandbyError",
    "UnconfirmedError",
    "explain",
    "is_full",
    "is_refusal",
    "is_undone",
    "sqlstate",
]


class UnconfirmedError(Exception):
    """A statement had its effect, and the wait for a standby to confirm that was cancelled."""

    sqlstate = "01000"  # of the warning by which the server tells that


#: What a connection, or the attempt to make one, fails with.
FAILURES: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    UnconfirmedError,
    ValueError,
)

_SAID: Final = {
    "01000": "no standby has confirmed what was written, as the wait for that was cancelled. See"
    " pg_stat_replication for whether one is there",
    "22023": "it can't be used ({})",
    "25006": "it is read-only: a standby, or no longer the primary. Name the primary in the URL,"
    " or all servers, separated by commas",
    "28000": "it lets this role not in ({}). See its pg_hba.conf, and whether the role exists",
    "28P01": "it refused the password. Set the right one by PGPASSWORD or PGPASSFILE, or give the"
    " whole URL by COTERIE_STORE",
    "3D000": "there is no such database ({}). Create it, or correct the URL",
    "42501": "the role lacks a privilege ({}). See the documentation for those that it needs",
    "42704": "it can't be used ({})",
    "42P01": "its tables are gone ({}). Restore them from a backup, or restart to begin anew",
    "53100": "its disk is full ({}). Free some space there",
    "53300": "it takes no more connections ({}). Raise its max_connections, or what else"
    " limits them, or put PgBouncer before it",
    "55P03": "another transaction held a row for too long ({}). See pg_stat_activity for what"
    " is stuck",
    "57P03": "it takes no connections now ({})",
}

#: Errors after which a statement is known to have done nothing, and which pass by themselves:
#: conflicts with other transactions, and servers that are read-only.
_UNDONE: Final = frozenset({"25006", "40001", "40P01", "55000"})

_LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

#: What asyncpg says of a connection that was lost before it sent anything.
_UNSENT: Final = ("connection is closed", "cannot switch to state")

#: What asyncpg says of a connection that ended before the server had said whether it speaks TLS, as
#: one does that is made to what stands before a server while that is away.
ENDED_AT_ONCE: Final = "unexpected connection_lost() call"

#: How asyncpg says, without a type or code for it, that the server speaks no TLS.
_SPEAKS_NO_TLS: Final = "rejected SSL upgrade"

#: Waiting for a row took longer than it may.
LOCKED: Final = "55P03"

#: There are as many connections as there may be.
_FULL: Final = "53300"

#: How PgBouncer says that, without a code for it, whichever of its limits it is.
_POOLER_IS_FULL: Final = "no more connections allowed"

#: Errors that another attempt to connect would meet again.
_REFUSALS: Final = frozenset({"22023", "28000", "28P01", "3D000", "42501", "42704"})


class UnreachedError(StoreError):
    """No connection could be made, so that nothing was sent."""


class StandbyError(Exception):
    """The server is a standby, where nothing can be written."""


class ReadOnlyError(StandbyError):
    """The server was told to let nothing be written, whether or not it is a standby."""


_TLS_FAILED: Final = "TLS with it failed ({}). See sslmode, and the files that go with it"

#: What has no code, or another one than its sentence goes by.
_SAID_OF_TYPES: Final[dict[type[Exception], str]] = {
    ReadOnlyError: "it is read-only: default_transaction_read_only is on, for the role, the"
    " database or the whole server. Have it set to off for this role, or name another server",
    asyncpg.TargetServerAttributeNotMatched: "it is not what target_session_attrs wants. Name the"
    " right server in the URL, or all of them, separated by commas",
    ssl.SSLError: _TLS_FAILED,
    PermissionError: "it can't be reached: {}. See who may read the files for TLS, or use its"
    " socket, and the firewall",
}


def sqlstate(error: BaseException | None) -> str:
    """PostgreSQL's code of an error, or of the cause of a `StoreError`; empty if it has none."""
    if isinstance(error, StoreError):
        return sqlstate(error.__cause__)
    if isinstance(error, StandbyError):
        return "25006"
    if _POOLER_IS_FULL in str(error):
        return _FULL
    return str(getattr(error, "sqlstate", None) or "")


def is_undone(error: BaseException) -> bool:
    """Whether a statement that failed is known to have done nothing and may be sent again."""
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return str(error).startswith(_UNSENT)
    return sqlstate(error) in _UNDONE


def is_refusal(error: BaseException) -> bool:
    """Whether another attempt to connect would fail as well."""
    return sqlstate(error) in _REFUSALS or isinstance(error, asyncpg.ClientConfigurationError)


def is_full(error: BaseException) -> bool:
    """Whether the server takes no more connections."""
    return sqlstate(error) == _FULL


def explain(shown: str, error: BaseException, kind: type[StoreError] = StoreError) -> StoreError:
    """The error as callers of a store get it."""
    explained = kind(f"{shown}: {_sentence(error)}")
    explained.__cause__ = without_frames(error)
    return explained


def _sentence(error: BaseException) -> str:
    said = next((each for kind, each in _SAID_OF_TYPES.items() if isinstance(error, kind)), None)
    said = said or _SAID.get("25006" if sqlstate(error) == "55000" else sqlstate(error))
    # The first line only: others may have values of rows.
    first = next(iter(str(error).splitlines()), "")
    if _SPEAKS_NO_TLS in first:
        said = said or _TLS_FAILED
    if said is not None:
        return said.format(first)
    if isinstance(error, _LOST):
        is_unusable = isinstance(error, asyncpg.ClientConfigurationError)
        what = "it can't be used" if is_unusable else "the connection was lost"
        return f"{what} ({first})"
    if isinstance(error, asyncpg.PostgresError):
        return f"PostgreSQL failed: {first} ({sqlstate(error)})"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError):
        why = "it closed the connection at once" if first == ENDED_AT_ONCE else first
        return f"it can't be reached: {why}"
    return f"the store failed: {first or repr(error)}"
