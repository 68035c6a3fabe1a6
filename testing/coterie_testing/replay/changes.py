"""The settings that a replay changes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from coterie_server.config.settings import SETTINGS, Setting, SettingsError

__all__ = ["ASSIGNORS", "Changes"]

ASSIGNORS: Final[Mapping[str, Callable[[], Assignor]]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        CooperativeStickyAssignor,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Settings of members and of the coordinator to try in a replay.

    None leaves a member's setting as it is in the recording.
    """

    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignor: str | None = None
    #: Whether all members are static, or none is.
    static: bool | None = None
    coordinator: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Read settings by Kafka's names, as `--set KEY=VALUE` gives them.

        Raises `ValueError` for an unknown setting or an invalid value.
        """
        changes = cls()
        for key, text in settings.items():
            changes = changes._with(key, text)
        return changes

    def _with(self, key: str, text: str) -> Self:
        member = _MEMBER_KEYS.get(key)
        if member is not None:
            name, read = member
            try:
                values: dict[str, Any] = {name: read(text)}
            except ValueError as error:
                raise ValueError(f"{key} {error}") from error
            return replace(self, **values)
        setting = _COORDINATOR_KEYS.get(key)
        if setting is None:
            known = [*_MEMBER_KEYS, *_COORDINATOR_KEYS]
            near = difflib.get_close_matches(key, known, n=1)
            hint = (
                f"the nearest known one is {near[0]}" if near else f"there are {', '.join(known)}"
            )
            raise ValueError(f"unknown setting {key}; {hint}")
        try:
            value = setting.read(text, "")
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return replace(self, coordinator={**self.coordinator, setting.attribute: value})

    def __str__(self) -> str:
        shown = {
            key: getattr(self, name)
            for key, (name, _) in _MEMBER_KEYS.items()
            if getattr(self, name) is not None
        }
        shown |= {name.replace("_", "."): value for name, value in self.coordinator.items()}
        return ", ".join(f"{key}={_text(value)}" for key, value in shown.items()) or "as it was"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _milliseconds(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"must be a positive number of milliseconds, got {text!r}")
    return int(text)


def _assignor(text: str) -> str:
    if text not in ASSIGNORS:
        raise ValueError(f"must be one of {', '.join(ASSIGNORS)}, got {text!r}")
    return text


def _yes_or_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false, got {text!r}")
    return text == "true"


_MEMBER_KEYS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "session.timeout.ms": ("session_timeout_ms", _milliseconds),
    "max.poll.interval.ms": ("rebalance_timeout_ms", _milliseconds),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", _milliseconds),
    "assignor": ("assignor", _assignor),
    "static": ("static", _yes_or_no),
}

#: Settings of groups that change nothing here: members may ask for any session timeout, and member
#: ids are the simulator's.
_WITHOUT_EFFECT: Final = frozenset(
    {
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
        "group.consumer.id.style",
    }
)

_COORDINATOR_KEYS: Final[Mapping[str, Setting]] = {
    each.key: each
    for each in SETTINGS
    if each.key.startswith("group.") and each.key not in _WITHOUT_EFFECT
}
