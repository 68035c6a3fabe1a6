"""Invalid arguments are refused before any request is sent."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from coterie_client.admin import Admin
from coterie_client.errors import ConfigurationError

NO_PARTITIONS: Final = ("orders", b"o", 7, [7], ["orders"], [("orders",)], [("orders", True)])
MORE_NO_PARTITIONS: Final = ([("orders", -1)], [("orders", 2**31)], [(7, 0)], [("orders", "0")])
NO_OFFSETS: Final = (None, 7, [(("t", 0), 1)], {"orders": 1}, {("t", -1): 1}, {("t", 0): "1"})
MORE_NO_OFFSETS: Final = tuple({("t", 0): bad} for bad in (-1, None, 1.5, True, 2**63, math.nan))

pytestmark = pytest.mark.asyncio

Call = Callable[[Admin, Any], Awaitable[object]]
REFUSED: Final[tuple[tuple[str, Call, tuple[object, ...]], ...]] = (
    ("fetch", lambda a, x: a.offsets.fetch("g", x), NO_PARTITIONS + MORE_NO_PARTITIONS),
    ("delete", lambda a, x: a.offsets.delete("g", x), (*NO_PARTITIONS, *MORE_NO_PARTITIONS, None)),
    ("latest", lambda a, x: a.offsets.latest(x), (*NO_PARTITIONS, *MORE_NO_PARTITIONS, None)),
    ("reset", lambda a, x: a.offsets.reset("g", "latest", x), NO_PARTITIONS),
    ("set", lambda a, x: a.offsets.set("g", x), NO_OFFSETS + MORE_NO_OFFSETS),
    ("find", lambda a, x: a.offsets.find([("t", 0)], x), ("now", None, math.nan, True, 2**63)),
    ("create", lambda a, x: a.topics.create(x, 1), (None, 7, ["t"])),
    ("partitions", lambda a, x: a.topics.create("t", x), ("12", 2.5, True)),
    ("copies", lambda a, x: a.topics.create("t", 1, replication_factor=x), ("1", True)),
    ("create_many", lambda a, x: a.topics.create_many(x), (["t"], "t", None)),
    ("grow", lambda a, x: a.topics.grow("t", x), ("12", None, True)),
    ("grow_many", lambda a, x: a.topics.grow_many(x), (["t"], {7: 1})),
    ("describe", lambda a, x: a.topics.describe(x), (None, 7, ["t"])),
    ("delete", lambda a, x: a.topics.delete(x), (None, 7, ["t"])),
    ("group", lambda a, x: a.groups.describe(x), (None, 7, ["g"])),
    ("no_group", lambda a, x: a.groups.delete(x), (None, 7, ["g"])),
    ("members", lambda a, x: a.members.list(x), (None, 7)),
    ("delete_many", lambda a, x: a.topics.delete_many(x), ("orders", 7, None)),
    ("states", lambda a, x: a.groups.list(states=x), ("Stable", 7, [7], None)),
    ("types", lambda a, x: a.groups.list(types=x), ("consumer", [None])),
)


@pytest.mark.parametrize(
    ("call", "value"),
    [
        pytest.param(call, bad, id=f"{name}-{number}")
        for name, call, values in REFUSED
        for number, bad in enumerate(values)
    ],
)
async def test_invalid_arguments_are_refused_before_any_request(call: Call, value: object) -> None:
    admin = Admin("127.0.0.1:1")
    with pytest.raises(ConfigurationError, match=r" must be .*, got "):
        await call(admin, value)
    await admin.aclose()
