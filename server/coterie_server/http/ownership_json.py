"""Who owns what, as JSON, which is made a piece at a time while the event loop serves others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coterie_server.group.ledger import Partition
    from coterie_server.group.owners import Ownership, Ownerships

__all__ = ["head_of", "ownership_json", "pieces_of"]

_ROWS_AT_ONCE: Final = 250

_dumps: Final = partial(json.dumps, separators=(",", ":"))
_quote: Final = json.encoder.encode_basestring_ascii


def head_of(group_id: str, found: Ownerships) -> dict[str, Any]:
    """What is told with owners in any answer."""
    return {
        "group": group_id,
        "state": found.state,
        "generation": found.generation,
        "topics": dict(sorted(found.topics.items())),
    }


def ownership_json(partition: Partition, ownership: Ownership) -> str:
    """How it stands with one partition."""
    topic, number = partition
    state, member, instance, address, labels, token = ownership
    return (
        f'{{"topic":{_quote(topic)},"partition":{number},"state":"{state}"'
        f',"owner":{_text(member)},"instance":{_text(instance)},"address":{_text(address)}'
        f',"labels":{_dumps(dict(labels)) if labels else "{}"}'
        f',"token":{"null" if token is None else token}}}'
    )


def _text(text: str | None) -> str:
    return "null" if text is None else _quote(text)


async def pieces_of(
    head: dict[str, Any], owners: Iterable[tuple[Partition, Ownership]]
) -> AsyncIterator[bytes]:
    """An object with these fields and the `owners`, in pieces of about a millisecond."""
    rows: list[str] = []
    begin = f'{_dumps(head)[:-1]},"owners":['
    for partition, ownership in owners:
        rows.append(ownership_json(partition, ownership))
        if len(rows) == _ROWS_AT_ONCE:
            yield (begin + ",".join(rows)).encode()
            begin, rows = ",", []
            await asyncio.sleep(0)
    yield ((begin if rows or begin != "," else "") + ",".join(rows) + "]}").encode()
