"""The deliberate differences between Coterie and Kafka's classic coordinator.

Each has a section of the same name in `docs/kafka-compatibility.md`, which repeats its reason.
Scenarios declare where they meet one; a test holds the three together.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL", "Difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that Coterie does in another way than Kafka, on purpose."""

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
    "A generation's number is a fencing token, so it is stored before anybody is told it, and none "
    "is ever used again: not after a crash, not after the group was deleted.",
)
STATIC_STAY = _difference(
    "static-members-end-by-session",
    "What a static member is promised is its place for the length of its session, so nothing else "
    "takes it away, and nothing but hearing of it prolongs it.",
)
STATIC_ROOM = _difference(
    "static-members-in-full-groups",
    "A static member that comes back takes no new place, so a full group has room for it.",
)
STATIC_CLIENT = _difference(
    "static-replacement-shows-the-new-client",
    "Whoever looks at a group wants to find the process that is there now.",
)
STATIC_TOPICS = _difference(
    "static-replacement-with-other-topics",
    "Who restarts a worker with more topics expects it to work on them, and not only after the "
    "next rebalance, which may be weeks away.",
)
STATIC_MOVES = _difference(
    "static-replacement-before-sync",
    "Who takes a static member's place also takes over that its sync is awaited, so nobody waits "
    "for the one that is gone.",
)
ANSWERED = _difference(
    "parked-requests-are-answered",
    "A request that nobody will answer any more hangs until its client gives up; Coterie says "
    "what has become of it.",
)
PENDING = _difference(
    "pending-ids-disturb-nobody",
    "An id that was handed out and never used is no member, so its end changes nothing for those "
    "who are.",
)
CLIENTS_FAULT = _difference(
    "no-internal-errors",
    "A request that makes no sense is its client's mistake and is answered as one; Kafka trips "
    "over some of them.",
)
PROTOCOL_TWICE = _difference(
    "protocols-named-twice",
    "A member that names a protocol twice can follow it all the same; Kafka's group is stuck until "
    "that member is given up.",
)
VOTE_TIES = _difference(
    "vote-ties",
    "Kafka leaves a tie to the order of a hash map; here the leader's preference decides, which "
    "can be foreseen.",
)
PROTOCOLS_KEPT = _difference(
    "protocols-survive-restarts",
    "All that members can follow is stored, so a restart does not narrow who may join.",
)
REBALANCES_KEPT = _difference(
    "rebalances-survive-restarts",
    "The state is stored with the generation, so a rebalance goes on after a restart instead of "
    "being forgotten.",
)
DELAY_ANEW = _difference(
    "initial-delay-starts-anew",
    "Each initial delay counts its own newcomers; Kafka lengthens one by those of the delay "
    "before it.",
)
TOPIC_CHANGES = _difference(
    "topic-changes-are-told",
    "The coordinator owns the topics, so it tells groups at once that they have changed, instead "
    "of waiting until their members look.",
)
TOPICS_AT_ONCE = _difference(
    "topics-are-there-at-once",
    "A topic is a number of partitions, so it is made while it is asked for, and the client need "
    "not ask again.",
)
NO_TOPIC_SETTINGS = _difference(
    "no-topic-settings",
    "Almost all settings of topics are about records, of which there are none: their names are "
    "checked, so that mistakes show, their values are not, and none are told.",
)
NO_RECORDS = _difference(
    "no-records",
    "Coterie stores no records: it refuses to take any, and tells consumers that they are at the "
    "end wherever they are, because a consumer that is told otherwise throws its position away.",
)
ENDS_FOLLOW_COMMITS = _difference(
    "ends-follow-commits",
    "Without records, how far groups have come is all that is known of a partition's length, and "
    "an end below a committed offset makes clients start over, complain, or set the offset back.",
)
GROUPS_ONLY = _difference(
    "only-groups",
    "Coterie coordinates consumer groups only, and says so at once instead of asking to try again.",
)
VERSIONS = _difference(
    "versions-spoken",
    "The versions before Kafka 4's are kept for old clients, and what needs records or a cluster "
    "is not offered.",
)
NO_AUTHENTICATION = _difference(
    "no-authentication",
    "Nobody is asked who they are, and a client that wants to be asked is told so.",
)
TURNED_AWAY = _difference(
    "who-is-turned-away-is-not-awaited",
    "When a member that comes too late to a full group is turned away and nobody else is awaited, "
    "the rebalance is over; Kafka lets its time run out.",
)
PENDING_KEPT = _difference(
    "pending-ids-last-for-their-session",
    "A member that was told its id has its session's time to come back with it, so an empty group "
    "is not swept away before.",
)
LEADER_EPOCHS = _difference(
    "leader-epochs-stay",
    "There is one node and nothing to replicate, so who leads a partition never changes, not even "
    "by a restart.",
)
BOUNDS = _difference(
    "bounds",
    "What clients can make a server remember is bounded: ids handed out and not used, topics, "
    "partitions, groups, connections.",
    not_shown="it would take ten thousand requests, or as many partitions in Kafka",
)
