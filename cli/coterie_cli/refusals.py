"""What a server refused, in a sentence for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from coterie_cli.output import capitalized

if TYPE_CHECKING:
    from coterie_client.errors import BatchFailedError
    from coterie_protocol.errors import KafkaError
    from coterie_protocol.exceptions import CoterieError

__all__ = ["sentence_of"]

#: Said of each partition of a batch, and told once for all of them.
_PARTITION: Final = re.compile(r",? ?\bpartition \d+ of [^:]+(?=:|$)")


def sentence_of(error: CoterieError) -> str:
    """An error as a sentence; Kafka's name of it stands at the end, for a search."""
    from coterie_client.errors import BatchFailedError, CoterieClientError
    from coterie_protocol.errors import KafkaError

    if isinstance(error, BatchFailedError):
        return " ".join(_of_batch(error))
    if isinstance(error, CoterieClientError) or not isinstance(error, KafkaError):
        return str(error)
    return _of_kafka(error, error.detail or "")


def _of_batch(error: BatchFailedError) -> list[str]:
    """A sentence for each kind of error, with the items that have it unless it is the group's."""
    from coterie_client.reporting import brief
    from coterie_protocol.errors import (
        GroupSubscribedToTopicError,
        KafkaError,
        TopicAuthorizationFailedError,
        UnknownTopicOrPartitionError,
    )

    of_topics = (
        GroupSubscribedToTopicError,
        TopicAuthorizationFailedError,
        UnknownTopicOrPartitionError,
    )
    kinds: dict[type, list[object]] = {}
    for item, each in error.errors.items():
        kinds.setdefault(type(each), []).append(item)
    told: list[str] = []
    for items in kinds.values():
        first = error.errors[items[0]]
        text = (
            _of_kafka(first, _PARTITION.sub("", first.detail or ""))
            if isinstance(first, KafkaError)
            else str(first)
        )
        pairs = [item for item in items if isinstance(item, tuple)]
        if len(items) < error.asked or isinstance(first, of_topics):
            text = f"{brief(pairs) if pairs else ', '.join(map(str, items))}: {text}"
        told.append(text)
    return told


def _of_kafka(error: KafkaError, detail: str) -> str:
    from coterie_protocol.errors import (
        IllegalSaslStateError,
        SecurityDisabledError,
        UnsupportedSaslMechanismError,
    )

    if isinstance(error, IllegalSaslStateError):
        return f"The server takes no user and password here: leave out --user ({error.name})."
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"{capitalized(detail)}: choose by --mechanism ({error.name})."
    if isinstance(error, SecurityDisabledError):
        return (
            "The server looks at no ACLs: all may do everything. Its settings authorizer.class.name"
            f" and super.users turn them on, see docs/how-to/secure.md ({error.name})."
        )
    subject, colon, told = detail.partition(": ")
    reason = told if colon and told else error.default_message
    later = " It may work later." if _may_pass(error) else ""
    # A server's own sentence may begin with what it is about.
    is_named = not subject or (told and subject.rpartition(" ")[2] in told)
    sentence = reason if is_named else f"{subject}: {reason}"
    return f"{capitalized(sentence).rstrip('.')} ({error.name}).{later}"


def _may_pass(error: KafkaError) -> bool:
    """Whether the same request may succeed later although nobody changes anything."""
    from coterie_protocol.error_codes import ErrorCode

    # To consumers these are retriable, since somebody may create the topic yet.
    final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return error.retriable and error.code not in final
