"""A mark on the topics of a Metadata request: these may be told of, but not made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coterie_protocol.schema import NIL_UUID

if TYPE_CHECKING:
    from uuid import UUID

    from coterie_protocol.messages import MetadataRequest, MetadataRequestTopic

__all__ = ["only_told", "to_be_made"]


@dataclass(frozen=True, slots=True)
class _OnlyTold:
    """Stands for a topic in a request whose client has no right to have this one made.

    It was there when the rights were looked at.  If it is deleted before the request is served, it
    stays so, whichever other topics of the request are made.
    """

    name: str
    topic_id: UUID = NIL_UUID


def only_told(name: str) -> MetadataRequestTopic:
    """A topic for a request, to be told of if it is there, and not to be made."""
    return cast("MetadataRequestTopic", _OnlyTold(name))


def to_be_made(message: MetadataRequest) -> list[str]:
    """The names of the topics that a request has made, once each, unless they are there."""
    if not message.allow_auto_topic_creation:
        return []
    topics: tuple[MetadataRequestTopic | _OnlyTold, ...] = message.topics or ()
    unmarked = (topic for topic in topics if not isinstance(topic, _OnlyTold))
    return list(dict.fromkeys(topic.name for topic in unmarked if topic.name is not None))
