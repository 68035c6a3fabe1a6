"""The cause of a rebalance, as journals name it, from the reason that Kafka logs.

Since 3.2 Kafka adds the client's own reason (KIP-800), which tells more than Kafka's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from coterie_pipeline.kafka_logs.patterns import instance_of, names_in

__all__ = ["ParsedReason", "client_reason", "is_by_admin", "parse_reason"]

_CLIENT: Final = "; client reason: "
#: What stands there if the client gave none.
_NOT_PROVIDED: Final = "not provided"

_WITH_INSTANCE: Final = r"(?P<member>.+?) with group instance ?id (?P<instance>.+)"
_STATIC: Final = r"(?P<member>.+?) with instance id (?P<instance>.+?)"

#: Kafka's own reasons, and the cause that each stands for.
_REASONS: Final[tuple[tuple[str, str], ...]] = (
    (rf"Adding new member {_WITH_INSTANCE}", "member_joined"),
    (rf"Updating metadata for static member {_STATIC}", "static_replaced"),
    (
        (
            rf"Group's selectedProtocol will change because static member {_STATIC} joined with "
            r"change of protocol"
        ),
        "static_replaced",
    ),
    (r"Updating metadata for member (?P<member>.+?) during \w+", "subscription_changed"),
    # 2.4 to 2.6 say the same of a leader that joins again: see `ParsedReason.may_be_leader`.
    (r"Updating metadata for member (?P<member>.+)", "subscription_changed"),
    (r"Leader (?P<member>.+?) re-joining group during \w+", "leader_rejoined"),
    (r"Member (?P<member>.+?) (?:is )?joining group during \w+", "subscription_changed"),
    (r"Removing member (?P<member>.+?) on LeaveGroup", "member_left"),
    (r"explicit `LeaveGroup` request for \((?P<members>.*)\) members\.?", "member_left"),
    (r"Removing member (?P<member>.+?) on heartbeat expiration\.?", "session_expired"),
    (
        r"Removing \w*[\[(](?P<members>.*)[\])] on pending sync request expiration",
        "sync_expired",
    ),
    # The assignment came and could not be stored: like one that never came.
    (
        (
            r"Error (?:.+? )?when storing group assignment ?during SyncGroup "
            r"\(member: (?P<member>.+)\)\.?"
        ),
        "sync_expired",
    ),
    (r"Freshly-loaded group .*is over capacity.*", "over_capacity"),
    # A group of KIP-848 became a classic one.
    (r"Downgrade group .+ for member leaving\.", "member_left"),
    (r"Downgrade group .+ for static member replacement .*", "static_replaced"),
    (r"Downgrade group .+", "subscription_changed"),
)

_TABLE: Final = tuple((re.compile(text, re.IGNORECASE), cause) for text, cause in _REASONS)

#: The reason that Kafka's own administrator gives for members that it removes.
_BY_ADMIN: Final = "removed by an admin"

#: Parts of clients' reasons, and the causes that they stand for instead.
_CLIENT_CAUSES: Final[tuple[tuple[str, str], ...]] = (
    ("need to revoke partitions", "revocation_follow_up"),
    (_BY_ADMIN, "member_removed"),
    ("cached metadata has changed", "topic_changed"),
    ("subscription has changed", "subscription_changed"),
    ("does not match the current subscription", "subscription_changed"),
)

#: The causes that a client's reason may overrule.
_OVERRULED: Final = frozenset({"subscription_changed", "leader_rejoined", "member_left"})


@dataclass(frozen=True, slots=True)
class ParsedReason:
    """Why a rebalance began."""

    #: None if the reason is not known.
    cause: str | None
    members: tuple[str, ...] = ()
    instance: str | None = None
    #: The client's own reason, if it gave one.
    client: str = ""
    #: Whether it may as well be the leader that joins again.
    may_be_leader: bool = False


def parse_reason(reason: str) -> ParsedReason:
    """Read the reason in a line."""
    own, _, client = reason.partition(_CLIENT)
    client = client_reason(client)
    for pattern, cause in _TABLE:
        match = pattern.fullmatch(own)
        if match is not None:
            return _read(match, cause, client)
    return ParsedReason(None, client=client)


def client_reason(client: str | None) -> str:
    """A client's own reason; empty if it gave none."""
    return "" if client is None or client == _NOT_PROVIDED else client


def is_by_admin(client: str | None) -> bool:
    """Whether a client's reason is that of an administrator who removes a member."""
    return client is not None and _BY_ADMIN in client


def _read(match: re.Match[str], cause: str, client: str) -> ParsedReason:
    found = match.groupdict()
    members = names_in(found.get("members") or "") or tuple(filter(None, [found.get("member")]))
    if cause in _OVERRULED:
        cause = next((other for words, other in _CLIENT_CAUSES if words in client), cause)
    is_bare = cause == "subscription_changed" and " during " not in match[0]
    return ParsedReason(
        cause,
        members,
        instance_of(found.get("instance")),
        client,
        may_be_leader=is_bare and bool(members),
    )
