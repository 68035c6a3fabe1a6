"""The page that tells a group's past."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, final

from aiohttp import web

from coterie_server.group import no_group
from coterie_server.http.answers import bad_request, error, json_body
from coterie_server.past import Asked, Present, StoppedError, in_ranges
from coterie_server.past.reading import PastReader

if TYPE_CHECKING:
    from multidict import MultiMapping

    from coterie_protocol.journal import Partitions
    from coterie_server.http.elsewhere import Elsewhere
    from coterie_server.http.group_view import GroupView, MemberView
    from coterie_server.http.node_view import NodeView

__all__ = ["TOO_LONG", "PastPage", "asked_time"]

#: The time that is told about if none is asked for.
_HOUR_MS: Final = 3_600_000
_DIGITS_MAX: Final = 15

TOO_LONG: Final = (
    "Too much has happened to the group in that time; ask for a shorter one, or make a report of it"
    " with `coterie pipeline report`."
)


def asked_time(query: MultiMapping[str], now_ms: int) -> tuple[int, int]:
    """Since when and until when is asked; raises `Refusal`."""
    until_ms = min(_whole(query, "until_ms", now_ms), now_ms)
    since_ms = _whole(query, "since_ms", until_ms - _whole(query, "last_ms", _HOUR_MS))
    if since_ms >= until_ms:
        raise bad_request("since_ms must be before until_ms, and in the past.")
    return max(since_ms, 0), until_ms


def _whole(query: MultiMapping[str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise bad_request(f"{name} must be a whole number of milliseconds.")
    return int(text)


@final
class PastPage:
    """Tells who owned what in a group, when, and why that changed."""

    def __init__(self, node: NodeView, elsewhere: Elsewhere) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._reader = PastReader(node.journal)

    @property
    def has_journal(self) -> bool:
        """Whether there is anything to tell of."""
        return self._reader.has_journal

    async def past(self, request: web.Request) -> web.Response:
        """Answer about one group, for a time."""
        self._node.require_open()
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id, takes_long=True)
        if elsewhere is not None:
            return elsewhere
        asked = Asked(group_id, *asked_time(request.query, self._node.date_ms()))
        group = await self._node.group(group_id)
        if group is None:
            raise no_group(group_id)
        try:
            taken_over_ms = self._node.taken_over_ms(group_id)
            return json_body(await self._reader.read(asked, _present(group), taken_over_ms))
        except StoppedError:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "too_much", TOO_LONG)


def _present(group: GroupView) -> Present:
    is_known = all(each.owned is not None for each in group.members)
    owned = {each.member: _in_ranges(each.owned or {}) for each in group.members}
    return Present(
        group.generation, owned if is_known else None, tuple(map(_identity, group.members))
    )


def _in_ranges(owned: Partitions) -> dict[str, str]:
    return {topic: in_ranges(numbers) for topic, numbers in owned.items()}


def _identity(member: MemberView) -> dict[str, str | None]:
    return {name: getattr(member, name) for name in ("member", "instance", "client_id", "host")}
