"""An open connection to the database, on which transactions are durable."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import asyncpg

from coterie_server.storage.postgres.errors import (
    FAILURES,
    ReadOnlyError,
    StandbyError,
    UnconfirmedError,
)

__all__ = ["Session"]

#: How long to take for a goodbye.
_CLOSE_S: Final = 1.0
#: Has a transaction be durable, and the server warn if it is not.  The setting may be switched off
#: at any moment, also between the statements of one transaction.  And has it wait for locks for not
#: much longer than its caller waits for the answer.
_DURABLY: Final = (
    "SELECT set_config('synchronous_commit', coalesce("
    "nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),"
    " set_config('client_min_messages', 'warning', true),"
    " set_config('lock_timeout', '{patience_ms}', true); "
)
#: The function of the server which warns that somebody has cancelled the wait for a standby.  It
#: says so in any language.
_WAITS_FOR_STANDBY: Final = "SyncRepWaitForLSN"
#: After how long the server ends a transaction of a node that is paused, with the locks it holds.
_PAUSED_MS: Final = 2000


class Session:
    """An open connection."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # asyncpg has no types
        self._connection = connection
        connection.add_log_listener(self._hear)
        self._is_unconfirmed = False
        #: What makes a transaction durable, where the server would not do so by itself.
        self.durably = ""
        #: How long a transaction may wait for a lock.  One that was given up would go on waiting
        #: on the server, where each takes up a connection.
        self.patience_ms = 0

    async def prepare(self) -> None:
        """See that what is written to a session will be durable."""
        # Distributed databases lack some of these settings, or say that they have them.
        settings = dict(
            await self.fetch(
                "SELECT name, setting FROM pg_catalog.pg_settings"
                " WHERE name IN ('transaction_read_only', 'default_transaction_read_only',"
                " 'synchronous_commit')"
                " UNION ALL SELECT 'version', version()"
            )
        )
        if settings.get("transaction_read_only") == "on":
            is_told = settings.get("default_transaction_read_only") == "on"
            raise ReadOnlyError if is_told else StandbyError
        if "synchronous_commit" in settings and settings["version"].startswith("PostgreSQL"):
            self.durably = _DURABLY

    @property
    def is_open(self) -> bool:
        """Whether the connection is not known to be lost."""
        return not self._connection.is_closed()

    async def execute(self, statements: str) -> int:
        """Run statements, all or none; return the count in the last one's result.

        They are one message and, if there are several, one transaction.
        """
        self._is_unconfirmed = False
        durably = self.durably.format(patience_ms=self.patience_ms)
        status = await self._connection.execute(durably + statements)
        if self._is_unconfirmed:
            raise UnconfirmedError
        return int(status.rpartition(" ")[2]) if status[-1:].isdigit() else 0

    def _hear(self, _connection: object, said: Any) -> None:  # noqa: ANN401  # asyncpg's
        """Take in a warning, which comes before the answer that it concerns."""
        if getattr(said, "server_source_function", None) == _WAITS_FOR_STANDBY:
            self._is_unconfirmed = True

    async def fetch(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query."""
        # A pooler would give each step of it another session if there were no transaction.
        await self._connection.execute(
            f"BEGIN; SET LOCAL lock_timeout TO {self.patience_ms};"
            f" SET LOCAL idle_in_transaction_session_timeout TO {_PAUSED_MS}"
        )
        try:
            rows: list[Any] = await self._connection.fetch(query, *values)
        except asyncpg.PostgresError:
            if self.is_open:
                await self._connection.execute("ROLLBACK")
            raise
        # A call that is cancelled, or times out, gives its connection up: it would wait here, and
        # fail instead of being cancelled.
        await self._connection.execute("COMMIT")
        return rows

    async def close(self) -> None:
        """Say goodbye, but not for long."""
        with contextlib.suppress(*FAILURES):
            await self._connection.close(timeout=_CLOSE_S)

    def abort(self) -> None:
        """Give the connection up at once."""
        self._connection.terminate()
