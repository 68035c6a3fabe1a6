"""The scenarios: functions marked with `@scenario`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

from coterie_protocol import API_VERSIONS, ApiKey
from tests.interop.differential.script import Script

__all__ = ["SCENARIOS", "Scenario", "Setup", "scenario"]

Play = Callable[[Script], Awaitable[None]]


class Setup(Enum):
    """The settings that a scenario runs under."""

    USUAL = "usual"
    """Kafka's defaults, but no initial delay, short sessions allowed and no automatic topics."""
    NARROW = "narrow"
    """Two members at most, an initial delay, automatic topics, and topics can't be deleted."""
    RESTART = "restart"
    """As usual; in the middle of all these scenarios the brokers are restarted, and from then on
    groups may have two members at most."""
    SWEPT = "swept"
    """As usual; expired offsets and groups are looked for all the time."""
    GUARDED = "guarded"
    """With automatic topics; clients log in by their names, and ACLs say what they may do."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario to run against both brokers."""

    name: str
    sentence: str
    play: Play
    setup: Setup
    #: The API and version that it is about, if the broker may lack it.
    needs: tuple[ApiKey, int] | None = None


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    setup: Setup = Setup.USUAL, *, each: ApiKey | None = None, since: int = 0
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Mark a function as a scenario; with `each`, as one for each version of an API.

    `since` is the first of these versions.
    """

    def register(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        name = str(getattr(function, "__name__", "")).replace("_", "-")
        sentence = inspect.getdoc(function) or ""
        assert sentence
        if each is None:
            _add(Scenario(name, sentence, function, setup))
        else:
            for version in range(since, API_VERSIONS[each].last + 1):
                play: Any = partial(function, version=version)
                _add(Scenario(f"{name}-v{version}", sentence, play, setup, (each, version)))
        return function

    return register


def _add(added: Scenario) -> None:
    assert added.name not in SCENARIOS, added.name
    SCENARIOS[added.name] = added
