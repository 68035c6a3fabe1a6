"""What the shell offers for a name that is being typed: groups, topics, users, states and profiles.

Whatever goes wrong, nothing is offered: an error would be printed into the line that is typed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from coterie_cli.profiles import Profiles, file_path
from coterie_cli.target import target_of

if TYPE_CHECKING:
    from coterie_client.admin import Admin

__all__ = ["complete_group", "complete_profile", "complete_topic", "complete_user"]

#: Nobody waits longer for what the tab key gives.
_TIMEOUT_S: Final = 2.0


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """The groups whose names begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [group.group_id for group in await admin.groups.list()]

    return _offered(ctx, incomplete, names)


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics whose names begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [topic.name for topic in await admin.topics.list()]

    return _offered(ctx, incomplete, names)


def complete_user(ctx: typer.Context, incomplete: str) -> list[str]:
    """The users whose names begin like this."""

    async def names(admin: Admin) -> Iterable[str]:
        return [user.name for user in await admin.users.list()]

    return _offered(ctx, incomplete, names)


def complete_profile(incomplete: str) -> list[str]:
    """The profiles whose names begin like this."""
    try:
        names = Profiles.read(file_path()).by_name
    except Exception:  # noqa: BLE001  # as above
        return []
    return [name for name in names if name.startswith(incomplete)]


def _offered(
    context: typer.Context, begin: str, names: Callable[[Admin], Awaitable[Iterable[str]]]
) -> list[str]:
    from coterie_cli.connection import run_admin

    try:
        target = target_of(context, context.params)
        short = replace(target, timeout_s=min(target.timeout_s, _TIMEOUT_S))
        return sorted(name for name in run_admin(short, names) if name.startswith(begin))
    except Exception:  # noqa: BLE001  # as above
        return []
