"""What a group is to do, as operators ask over HTTP: each answered once it is durable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, final

from aiohttp import web

from coterie_protocol.exceptions import CoterieError
from coterie_server.group import Refusal
from coterie_server.group.operations import (
    MemberName,
    delete_group,
    force_rebalance,
    remove_members,
    reset_offsets,
)
from coterie_server.http.access import is_cross_site
from coterie_server.http.answers import as_json, bad_request, error, json_body
from coterie_server.http.groups import group_in_full
from coterie_server.http.others import ASKED_BY, PASSED_BODY
from coterie_server.http.server import whole_body
from coterie_server.http.standing_orders import ORDERS, read_order
from coterie_server.log.logger import get_logger, shortened

if TYPE_CHECKING:
    from coterie_server.group.step import Step
    from coterie_server.http.elsewhere import Elsewhere
    from coterie_server.http.node_view import NodeView

__all__ = ["OPERATIONS", "GroupActions"]

_log = get_logger(__name__)

#: What the console offers, by the names of the operations.
OPERATIONS: Final = ("rebalance", "remove", "reset", "delete", *ORDERS)

_MEMBERS_MAX: Final = 1000
_OFFSET_MAX: Final = 2**63 - 1
_NAME_MAX: Final = 249
_NODE_MAX: Final = 20

_Operation = Callable[["Step"], None]


@final
class GroupActions:
    """Has groups do things."""

    def __init__(self, node: NodeView, elsewhere: Elsewhere, one_at_a_time: asyncio.Lock) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._one_at_a_time = one_at_a_time

    async def rebalance(self, request: web.Request) -> web.Response:
        """Start a rebalance of a group of static members."""
        return await self._act(request, "rebalance", lambda _: force_rebalance)

    async def remove(self, request: web.Request) -> web.Response:
        """Remove members."""
        return await self._act(request, "remove", _read_removal)

    async def reset(self, request: web.Request) -> web.Response:
        """Reset offsets of an empty group."""
        return await self._act(request, "reset", _read_reset)

    async def delete(self, request: web.Request) -> web.Response:
        """Delete an empty group."""
        return await self._act(request, "delete", lambda _: delete_group)

    async def order(self, request: web.Request) -> web.Response:
        """Order something that stands until it is lifted, or lift it."""
        name = request.match_info["operation"]
        if name not in ORDERS:
            message = f"There is no operation {name[:_NAME_MAX]!r}, only {', '.join(ORDERS)}."
            return error(HTTPStatus.NOT_FOUND, "not_found", message)
        return await self._act(request, name, partial(read_order, name))

    async def _act(  # each refusal is an answer
        self,
        request: web.Request,
        name: str,
        read: Callable[[Mapping[str, Any]], Callable[..., None]],
    ) -> web.Response:
        if is_cross_site(request.headers.get("Origin"), request.host):
            message = "A web page of another site may not have a group do anything."
            return error(HTTPStatus.FORBIDDEN, "foreign_origin", message)
        self._node.require_ready()
        group_id = request.match_info["group"]
        request[PASSED_BODY] = await whole_body(request)
        _note(request, name, group_id)
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        operation = read(_values(request[PASSED_BODY]))
        return await self._operate(group_id, partial(operation, group_id=group_id))

    async def _operate(self, group_id: str, operation: _Operation) -> web.Response:
        try:
            shown = await self._node.operate(group_id, operation)
        except Refusal:
            raise
        except CoterieError as problem:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "not_available", str(problem))
        if shown is None:
            return as_json({"group": group_id})
        async with self._one_at_a_time:
            return json_body(await group_in_full(shown, {}))


def _note(request: web.Request, operation: str, group_id: str) -> None:
    """Log who asks: also where another node is to do it, which sees only that this one asks."""
    by = request.headers.get(ASKED_BY)
    passed_on = {} if by is None else {"passed_on_by": shortened(by, _NODE_MAX)}
    short = shortened(group_id, _NAME_MAX)
    _log.info(
        "asked for over HTTP", operation=operation, group=short, peer=request.remote, **passed_on
    )


def _values(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise bad_request("The body must be JSON.") from problem
    if not isinstance(values, dict):
        raise bad_request("The body must be a JSON object.")
    return values


def _read_removal(values: Mapping[str, Any]) -> Callable[..., None]:
    members = values.get("members")
    if not isinstance(members, list) or not 1 <= len(members) <= _MEMBERS_MAX:
        raise bad_request(f"members must be a list of 1 to {_MEMBERS_MAX} members.")
    return partial(remove_members, names=[_read_member(each) for each in members])


def _read_member(value: object) -> MemberName:
    found = value if isinstance(value, dict) else {}
    member, instance = found.get("member"), found.get("instance")
    if isinstance(member, str) and instance is None:
        return MemberName(member, None)
    if isinstance(instance, str) and member is None:
        return MemberName(None, instance)
    raise bad_request('Each of the members must be {"member": ID} or {"instance": ID}.')


def _read_reset(values: Mapping[str, Any]) -> Callable[..., None]:
    topic, partitions, to = values.get("topic"), values.get("partitions"), values.get("to")
    if not isinstance(topic, str):
        raise bad_request("topic must be the name of a topic.")
    is_list = isinstance(partitions, list) and all(map(_is_number, partitions))
    if partitions is not None and not is_list:
        raise bad_request("partitions must be a list of numbers of partitions.")
    if to != "delete" and not _is_offset(to):
        raise bad_request('to must be an offset, which is a whole number from 0, or "delete".')
    offset = None if to == "delete" else to
    return partial(reset_offsets, topic=topic, partitions=partitions, offset=offset)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and _is_number(value) and 0 <= value <= _OFFSET_MAX


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
