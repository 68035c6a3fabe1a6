"""A run as text, a line for each event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import Event, OffsetsCommitted
from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.system import System

__all__ = ["trace"]


def trace(run: Run) -> Iterator[str]:
    """Execute a run, and tell what happens in it."""
    lines: list[str] = []

    def listen(system: System) -> None:
        def note(who: str, event: ClientEvent | Event | str) -> None:
            text = _text(event)
            if text is not None:
                lines.append(_line(system.scheduler.now_s, who, text))

        system.on_event = note

    result = execute(run, listen)
    yield from lines
    if result.failure is not None:
        yield _line(result.virtual_s, "", f"FAILED: {result.failure}")


def _line(now_s: float, who: str, what: str) -> str:
    return f"{now_s:10.3f}  {who:<12} {what}"


def _text(event: ClientEvent | Event | str) -> str | None:
    """An event in a line; None for what happens too often."""
    if isinstance(event, str):
        return event
    if isinstance(event, ClientEvent):
        return f"{event.text} {_details(event.details())}".rstrip()
    if isinstance(event, OffsetsCommitted):
        return None
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    shown = {name: value for name, value in values.items() if value not in (None, "", (), {})}
    return f"{event.kind} {_details(shown)}".rstrip()


def _details(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + " ".join(_shown(each) for each in value) + "]"
    return str(value)
