"""What happened, in words for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import Event, OffsetsCommitted

__all__ = ["line", "told"]


def told(event: ClientEvent | Event | str) -> str | None:
    """What happened, in a line; None for what happens too often."""
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


def line(now_s: float, who: str, what: str) -> str:
    """A line: when, who, what."""
    return f"{now_s:10.3f}  {who:<12} {what}"
