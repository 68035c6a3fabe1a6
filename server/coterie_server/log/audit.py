"""The lines that an auditor needs: who was refused what, and from where."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from coterie_server.log.logger import get_logger
from coterie_server.security import ANONYMOUS

if TYPE_CHECKING:
    from coterie_server.security import Principal
    from coterie_server.security.screening import Refusal

__all__ = ["QUIET_MS", "AuditLog"]

_log = get_logger(__name__)

#: How long a refusal is not logged again that is like an earlier one.
QUIET_MS: Final = 60_000
#: How many different refusals are logged in that time; a client may think of names without end.
_LINES_MAX: Final = 1_000
#: How many of them are about one client, which could keep what others try out of the log otherwise.
_LINES_EACH: Final = 100
#: How much of a name is logged: as much as the longest that a topic can have.
_SHOWN_MAX: Final = 249


class AuditLog:
    """Writes a line for each thing that a client was refused, but no line twice in a minute."""

    def __init__(self) -> None:
        self._begun_ms = 0
        #: How often what was logged in this minute came again.
        self._seen: dict[tuple[object, ...], int] = {}
        self._beyond = 0
        #: How many lines there are about whom: a principal, or the address of one without a name.
        self._lines: Counter[Principal | str] = Counter()

    def refused(
        self,
        principal: Principal,
        host: str,
        message: Any,  # noqa: ANN401  # any request
        refusal: Refusal,
        now_ms: int,
    ) -> None:
        """Note that a client was refused something."""
        if now_ms - self._begun_ms >= QUIET_MS:
            self._begin(now_ms)
        name, request = refusal.name[:_SHOWN_MAX], _title_of(message)
        key = (principal, host, request, refusal.operation, refusal.kind, name)
        whom = host if principal == ANONYMOUS else principal
        if key in self._seen:
            self._seen[key] += 1
        elif len(self._seen) >= _LINES_MAX or self._lines[whom] >= _LINES_EACH:
            self._beyond += 1
        else:
            self._seen[key] = 0
            self._lines[whom] += 1
            _log.warning(
                "refused",
                principal=str(principal),
                host=host.removeprefix("/"),
                operation=refusal.operation.title,
                resource=f"{refusal.kind.title}:{name}",
                request=request,
            )

    def asked(self, principal: Principal, host: str, message: Any) -> None:  # noqa: ANN401
        """Note that a client may change rights, and is about to."""
        where, request = host.removeprefix("/"), _title_of(message)
        _log.info("change of rights", principal=str(principal), host=where, request=request)

    def _begin(self, now_ms: int) -> None:
        """Begin another minute, and say what was not logged in the last."""
        repeated = sum(self._seen.values()) + self._beyond
        if repeated:
            _log.warning(
                "more was refused than is logged", refusals=repeated, different=self._beyond
            )
        self._begun_ms = now_ms
        self._seen.clear()
        self._lines.clear()
        self._beyond = 0


def _title_of(message: Any) -> str:  # noqa: ANN401  # any request
    return type(message).__name__.removesuffix("Request")
