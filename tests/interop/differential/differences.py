"""The deliberate differences between Coterie and Kafka's classic coordinator.

Each has a section of the same name in `docs/kafka-compatibility.md`, which repeats its reason.
Scenarios declare where they meet one; a test holds the three together.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL", "Difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that Coterie deliberately does differently from Kafka."""

    #: The anchor of its section in the document.
    name: str
    #: Why, in a sentence.
    reason: str
    #: Why no scenario can show it; empty if one does.
    not_shown: str = ""


ALL: dict[str, Difference] = {}


def _difference(name: str, reason: str, not_shown: str = "") -> Difference:
    difference = Difference(name, reason, not_shown)
    assert name not in ALL
    ALL[name] = difference
    return difference


GENERATIONS = _difference(
    "generation-numbers",
    "A generation's number is a fencing token, so it is stored before a client learns it and is "
    "never used again: not after a crash, not after the group was deleted.",
)
STATIC_STAY = _difference(
    "static-members-end-by-session",
    "A static member is promised its place for the length of its session, so nothing else takes "
    "the place away, and only the member's own requests prolong the session.",
)
STATIC_ROOM = _difference(
    "static-members-in-full-groups",
    "A static member that comes back takes no new place, so a full group has room for it.",
)
STATIC_CLIENT = _difference(
    "static-replacement-shows-the-new-client",
    "An operator who looks at a group wants to find the process that is in it now.",
)
STATIC_TOPICS = _difference(
    "static-replacement-with-other-topics",
    "An operator who restarts a worker with more topics expects it to work on them now, and not "
    "only after the next rebalance, which may be weeks away.",
)
STATIC_MOVES = _difference(
    "static-replacement-before-sync",
    "The process that takes over a static member's place owes the SyncGroup as well, so the group "
    "does not wait for the process that is gone.",
)
ANSWERED = _difference(
    "parked-requests-are-answered",
    "A request that is never answered hangs until its client gives up, so Coterie tells the client "
    "what became of it.",
)
PENDING = _difference(
    "pending-ids-disturb-nobody",
    "A client that was given an id and never used it is no member, so its end changes nothing for "
    "the members.",
)
CLIENTS_FAULT = _difference(
    "no-internal-errors",
    "A request that makes no sense is its client's mistake, and the error code should say so.",
)
PROTOCOL_TWICE = _difference(
    "protocols-named-twice",
    "A member that names a protocol twice can still follow it, so it is no reason for the group to "
    "be stuck.",
)
VOTE_TIES = _difference(
    "vote-ties",
    "The leader's preference can be foreseen, unlike the order of a hash map.",
)
PROTOCOLS_KEPT = _difference(
    "protocols-survive-restarts",
    "All protocols of all members are stored, so that a restart does not change which members may "
    "join.",
)
REBALANCES_KEPT = _difference(
    "rebalances-survive-restarts",
    "The state is stored with the generation, so a rebalance goes on after a restart instead of "
    "being forgotten.",
)
DELAY_ANEW = _difference(
    "initial-delay-starts-anew",
    "Only the members that arrive during an initial delay should prolong it.",
)
TOPIC_CHANGES = _difference(
    "topic-changes-are-told",
    "The coordinator owns the topics, so it can tell groups of a change at once instead of waiting "
    "until their members refresh their metadata.",
)
TOPICS_AT_ONCE = _difference(
    "topics-are-there-at-once",
    "A topic is only a number of partitions and is quickly created, so the client need not ask "
    "again.",
)
NO_TOPIC_SETTINGS = _difference(
    "no-topic-settings",
    "Almost all settings of topics are about records, and there are none: names are checked so "
    "that typing errors show, values are ignored.",
)
NO_RECORDS = _difference(
    "no-records",
    "Coterie stores no records: it refuses to take any, and tells each consumer that it is at the "
    "end, because a consumer that is told otherwise throws its position away.",
)
ENDS_FOLLOW_COMMITS = _difference(
    "ends-follow-commits",
    "Without records, the groups' progress is all that is known of a partition's length, and an "
    "end below a committed offset makes clients start over, complain, or set the offset back.",
)
GROUPS_ONLY = _difference(
    "only-groups",
    "Coterie coordinates consumer groups only, and says so at once instead of asking to try again.",
)
VERSIONS = _difference(
    "versions-spoken",
    "The versions before Kafka 4's are kept for old clients, and APIs that need records or a "
    "cluster are not offered.",
)
_difference(
    "logging-in",
    "A guess at a user's name or password is to tell as little, and to cost as much, as it can.",
    not_shown="the scenarios' listeners let everyone in; the tests of logging in have Kafka's "
    "states and requests in a table",
)
REFUSALS = _difference(
    "refusals-say-what-is-refused",
    "A client that is refused learns what was refused, and nothing of the server's insides.",
)
VALID_ACLS = _difference(
    "acls-that-match-nothing",
    "An ACL that can match no client, such as one for the host `10.*`, `10.0.0.0/8` or "
    "`worker-1.example`, is a mistake that would go "
    "unnoticed, and if it denies something, that would be allowed.",
)
TURNED_AWAY = _difference(
    "who-is-turned-away-is-not-awaited",
    "A rebalance is over when no member is awaited any more, also when the last one was turned "
    "away because the group is full.",
)
PENDING_KEPT = _difference(
    "pending-ids-last-for-their-session",
    "A member that was told its id has a session's time to join with it, so its group is not swept "
    "away before.",
)
LEADER_EPOCHS = _difference(
    "leader-epochs-stay",
    "There is nothing to replicate, and any node can stand in for the leader of any partition, so "
    "what a leader epoch would tell clients never changes.",
)
BOUNDS = _difference(
    "bounds",
    "What clients can make a server remember is bounded: unused member ids, topics, partitions, "
    "groups, connections.",
    not_shown="it would take ten thousand requests, or as many partitions in Kafka",
)
CLOSED_CONNECTIONS = _difference(
    "closed-connections",
    "A client that stops sending has nearly always gone, so no answers are kept for it; what it "
    "sent is carried out all the same.",
    not_shown="scenarios have whole connections",
)
