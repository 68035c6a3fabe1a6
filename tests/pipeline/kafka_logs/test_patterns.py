"""Each sentence of each version is understood."""

from __future__ import annotations

import pytest

from coterie_pipeline.kafka_logs import log_events
from coterie_pipeline.kafka_logs.log_events import LogEvent
from coterie_pipeline.kafka_logs.patterns import PATTERNS, parse_line

_INFO = log_events.MemberInfo("m", "s", "c", "/10.0.0.1", 6000, 60000, ("range", "roundrobin"))
_METADATA = (
    "MemberMetadata(memberId=m, groupInstanceId=Some(s), clientId=c, clientHost=/10.0.0.1, "
    "sessionTimeoutMs=6000, rebalanceTimeoutMs=60000, supportedProtocols=List(range, roundrobin)"
)

_SENTENCES: list[tuple[str, LogEvent]] = [
    (
        (
            "Preparing to rebalance group g in state PreparingRebalance with old generation 3 "
            "(__consumer_offsets-7) (reason: because (of) this)"
        ),
        log_events.Preparing("g", 3, "because (of) this"),
    ),
    (
        (
            "Preparing to rebalance group g in state PreparingRebalance with old generation 3 "
            "(reason: because.)."
        ),
        log_events.Preparing("g", 3, "because."),
    ),
    ("Stabilized group g generation 4 (__consumer_offsets-7)", log_events.Stabilized("g", 4, None)),
    (
        "Stabilized group g generation 4 (__consumer_offsets-7) with 3 members",
        log_events.Stabilized("g", 4, 3),
    ),
    ("Stabilized group g generation 4 with 3 members.", log_events.Stabilized("g", 4, 3)),
    (
        "Assignment received from leader for group g for generation 4",
        log_events.Assigned("g", 4, None),
    ),
    (
        (
            "Assignment received from leader for group g for generation 4. The group has 3 "
            "members, 1 of which are static."
        ),
        log_events.Assigned("g", 4, None),
    ),
    (
        (
            "Assignment received from leader m for group g for generation 4. The group has 3 "
            "members, 1 of which are static."
        ),
        log_events.Assigned("g", 4, "m"),
    ),
    (
        "Group g with generation 5 is now empty (__consumer_offsets-7)",
        log_events.Emptied("g", 5),
    ),
    ("Group g with generation 5 is now empty.", log_events.Emptied("g", 5)),
    (
        "Group g removed dynamic members who haven't joined: Set(m, n)",
        log_events.NotRejoined("g", ("m", "n")),
    ),
    (
        "Group g removed dynamic members who haven't joined: [m, n]",
        log_events.NotRejoined("g", ("m", "n")),
    ),
    (
        (
            "Dynamic member with unknown member id joins group g in Empty state. Created a new "
            "member id m and request the member to rejoin with this id."
        ),
        log_events.IdGiven("g", "m", "Empty"),
    ),
    (
        (
            "Dynamic member with unknown member id joins group g in Stable state. Created a new "
            "member id m and requesting the member to rejoin with this id."
        ),
        log_events.IdGiven("g", "m", "Stable"),
    ),
    (
        (
            "Dynamic Member with unknown member id joins group g in Stable state. Created a new "
            "member id m for this member and add to the group."
        ),
        log_events.Joined("g", "m", None, "Stable"),
    ),
    (
        (
            "Dynamic member with unknown member id joins group g in state Stable. Created a new "
            "member id m and added the member to the group."
        ),
        log_events.Joined("g", "m", None, "Stable"),
    ),
    (
        (
            "Static Member with unknown member id joins group g in Empty state. Created a new "
            "member id m for this member and add to the group."
        ),
        log_events.Joined("g", "m", None, "Empty"),
    ),
    (
        (
            "Static member with groupInstanceId=s and unknown member id joins group g in Stable "
            "state. Created a new member id m for this member and added to the group."
        ),
        log_events.Joined("g", "m", "s", "Stable"),
    ),
    (
        "Adding new static member Some(s) to group g with member id m.",
        log_events.Joined("g", "m", "s", ""),
    ),
    (
        "Pending dynamic member with id m joins group g in Stable state. Adding to the group now.",
        log_events.Joined("g", "m", None, "Stable"),
    ),
    (
        (
            "Static member with groupInstanceId=s and unknown member id joins group g in Stable "
            "state. Replacing previously mapped member m with this groupInstanceId."
        ),
        log_events.Replaced("g", "s", "m", None),
    ),
    (
        (
            "Static member Some(s) of group g with unknown member id rejoins, assigning new member "
            "id n, while old member id m will be removed."
        ),
        log_events.Replaced("g", "s", "m", "n"),
    ),
    (
        (
            "Static member Some(s) with unknown member id rejoins, assigning new member id n, "
            "while old member m will be removed."
        ),
        log_events.Replaced(None, "s", "m", "n"),
    ),
    (
        (
            "Request memberId=m for static member with groupInstanceId=s is fenced by current "
            "memberId=n during operation heartbeat"
        ),
        log_events.Fenced("s", "m", "n", "heartbeat"),
    ),
    (
        (
            "Request memberId=m for static member with groupInstanceId=s is fenced by existing "
            "memberId=n during operation offset-commit"
        ),
        log_events.Fenced("s", "m", "n", "offset-commit"),
    ),
    (
        (
            "given member.id m is identified as a known static member s,but not matching the "
            "expected member.id Some(n)"
        ),
        log_events.Fenced("s", "m", "n", ""),
    ),
    ("Member m in group g has failed, removing it from the group", log_events.Failed("g", "m")),
    ("Member m in group g has failed, removing it from the group.", log_events.Failed("g", "m")),
    (
        (
            "Member[group.instance.id None, member.id m] in group g has left, removing it from the "
            "group"
        ),
        log_events.Left("g", "m", None, None),
    ),
    (
        f"Member {_METADATA}) has left group g through explicit `LeaveGroup`; client reason: bye",
        log_events.Left("g", "m", "bye", _INFO),
    ),
    (
        f"Member {_METADATA}, ) has left group g through explicit `LeaveGroup` request",
        log_events.Left("g", "m", None, _INFO),
    ),
    (
        (
            "[Group g] Member m has left group through explicit `LeaveGroup` request; client "
            "reason: bye"
        ),
        log_events.Left("g", "m", "bye", None),
    ),
    (
        "Pending member m in group g has been removed after session timeout expiration.",
        log_events.Unclaimed("g", "m"),
    ),
    ("Pending member m is leaving group g.", log_events.Unclaimed("g", "m")),
    (
        "Pending member with memberId=m has left group g through explicit `LeaveGroup` request",
        log_events.Unclaimed("g", "m"),
    ),
    (
        (
            "[Group g] Pending member m has left group through explicit `LeaveGroup` request; "
            "client reason: bye"
        ),
        log_events.Unclaimed("g", "m"),
    ),
    (
        f"Loaded member {_METADATA}) in group g with generation 6.",
        log_events.LoadedMember("g", 6, _INFO),
    ),
    ("Loading group metadata for g with generation 6", log_events.Loaded("g", 6, None)),
    ("Loaded classic group g with 2 members.", log_events.Loaded("g", None, 2)),
    ("Group g transitioned to Dead in generation 7", log_events.Deleted(("g",), "expired")),
    (
        "The following groups were deleted: g, h. A total of 3 offsets were removed.",
        log_events.Deleted(("g", "h"), "requested"),
    ),
    (
        (
            "The following offsets of the group g were deleted: my-topic-0, t-11. A total of 2 "
            "offsets were removed."
        ),
        log_events.OffsetsGone("g", (("my-topic", 0), ("t", 11))),
    ),
    ("Startup complete.", log_events.Started()),
    ("Shutting down.", log_events.Stopped()),
    ("Kafka version: 3.9.1", log_events.Version("3.9.1")),
    (
        "[GroupId g] Member m joins the consumer group using the consumer protocol.",
        log_events.Newer("g"),
    ),
    (
        (
            "[GroupId g][MemberId m] Bumped streams group epoch to 2 with metadata hash 3 and "
            "validated topic epoch 4."
        ),
        log_events.Newer("g"),
    ),
    ("Loaded consumer group g with 2 members.", log_events.Newer("g")),
    ("[GroupId=g] Unloaded group metadata for group epoch 3.", log_events.Newer("g")),
    (
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
        log_events.Newer("g"),
    ),
]


@pytest.mark.parametrize(("text", "meant"), _SENTENCES, ids=[s[0] for s in _SENTENCES])
def test_sentence_is_understood(text: str, meant: LogEvent) -> None:
    assert parse_line(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "Elected as the group coordinator for partition 1 in epoch 2",
        "Scheduling loading of offsets and group metadata from __consumer_offsets-1",
        "Finished loading offsets and group metadata from __consumer_offsets-0 in 3 milliseconds.",
        "Finished loading of metadata from __consumer_offsets-0 with epoch 0 in 3ms.",
        "Finished unloading __consumer_offsets-0. Removed 0 cached offsets and 0 cached groups.",
        "Unloading group metadata for g with generation 9",
        "[GroupId=g] Unloading group metadata for generation 8.",
        "[GroupId g] Creating a simple consumer group via manual offset commit.",
        "Static member joins during Stable stage will not trigger rebalance.",
        "Removed 0 expired offsets in 2 milliseconds.",
        "Group g could not complete rebalance because no members rejoined",
    ],
)
def test_sentence_that_adds_nothing_is_understood(text: str) -> None:
    assert parse_line(text) == log_events.Nothing()


def test_unknown_sentence_is_not_understood() -> None:
    assert parse_line("The moon is full") is None


def test_every_pattern_has_an_example_here() -> None:
    texts = [text for text, _ in _SENTENCES]
    unused = {f.kind for f in PATTERNS if not any(f.pattern.fullmatch(text) for text in texts)}
    assert unused == {"simple_group", "nothing"}
