"""Every reason in Kafka's sources has a cause that journals know."""

from __future__ import annotations

import pytest

from coterie_pipeline.kafka_logs.reasons import is_by_admin, parse_reason
from coterie_protocol.journal import CAUSES

#: The reason, whose it is, and its cause.
_REASONS = [
    # 2.4
    ("Adding new member m with group instanceid None", "m", "member_joined"),
    ("Updating metadata for member m", "m", "subscription_changed"),
    ("removing member m on LeaveGroup", "m", "member_left"),
    ("removing member m on heartbeat expiration", "m", "session_expired"),
    ("error when storing group assignment during SyncGroup (member: m)", "m", "sync_expired"),
    (
        (
            "Freshly-loaded group is over capacity (GroupConfig(1,2).groupMaxSize). Rebalacing in "
            "order to give a chance for consumers to commit offsets"
        ),
        None,
        "over_capacity",
    ),
    # 2.8
    ("Adding new member m with group instance id Some(s)", "m", "member_joined"),
    ("Member m joining group during PreparingRebalance", "m", "subscription_changed"),
    ("Updating metadata for member m during Stable", "m", "subscription_changed"),
    ("leader m re-joining group during Stable", "m", "leader_rejoined"),
    ("Updating metadata for static member m with instance id s", "m", "static_replaced"),
    (
        (
            "Group's selectedProtocol will change because static member m with instance id s "
            "joined with change of protocol"
        ),
        "m",
        "static_replaced",
    ),
    # 3.3 and 3.9
    (
        "Adding new member m with group instance id None; client reason: not provided",
        "m",
        "member_joined",
    ),
    (
        "Leader m re-joining group during Stable; client reason: not provided",
        "m",
        "leader_rejoined",
    ),
    (
        "Removing member m on LeaveGroup; client reason: the consumer is being closed",
        "m",
        "member_left",
    ),
    ("Removing Set(m) on pending sync request expiration", "m", "sync_expired"),
    (
        "Error NOT_COORDINATOR when storing group assignment during SyncGroup (member: m)",
        "m",
        "sync_expired",
    ),
    # 4.0 to 4.3
    (
        "Adding new member m with group instance id null; client reason: not provided",
        "m",
        "member_joined",
    ),
    (
        "Member m is joining group during PreparingRebalance; client reason: not provided",
        "m",
        "subscription_changed",
    ),
    ("explicit `LeaveGroup` request for (m) members.", "m", "member_left"),
    ("removing member m on heartbeat expiration.", "m", "session_expired"),
    ("Removing [m] on pending sync request expiration", "m", "sync_expired"),
    (
        "Error NOT_COORDINATOR when storing group assignmentduring SyncGroup (member: m).",
        "m",
        "sync_expired",
    ),
    (
        (
            "Freshly-loaded group g (size 9) is over capacity 8. Rebalancing in order to give a "
            "chance for consumers to commit offsets"
        ),
        None,
        "over_capacity",
    ),
    ("Downgrade group g from consumer to classic.", None, "subscription_changed"),
    ("Downgrade group g from consumer to classic for member leaving.", None, "member_left"),
    (
        (
            "Downgrade group g from consumer to classic for static member replacement with "
            "different subscription."
        ),
        None,
        "static_replaced",
    ),
    (
        "Downgrade group g from consumer to classic with stale assignment.",
        None,
        "subscription_changed",
    ),
    # What Kafka's Java client says of itself (KIP-800)
    (
        (
            "Leader m re-joining group during Stable; client reason: need to revoke partitions and "
            "re-join"
        ),
        "m",
        "revocation_follow_up",
    ),
    (
        "Leader m re-joining group during Stable; client reason: cached metadata has changed",
        "m",
        "topic_changed",
    ),
    (
        "Leader m re-joining group during Stable; client reason: subscription has changed",
        "m",
        "subscription_changed",
    ),
    (
        "Removing member m on LeaveGroup; client reason: member was removed by an admin: weary",
        "m",
        "member_removed",
    ),
]


@pytest.mark.parametrize(("reason", "member", "cause"), _REASONS, ids=[r[0] for r in _REASONS])
def test_reason_has_its_cause(reason: str, member: str | None, cause: str) -> None:
    read = parse_reason(reason)
    assert (read.cause, read.members) == (cause, (member,) if member else ())
    assert cause in CAUSES


def test_reason_of_no_known_version_has_no_cause() -> None:
    assert parse_reason("The moon is full").cause is None


def test_several_members_are_named() -> None:
    assert parse_reason("explicit `LeaveGroup` request for (a, b) members.").members == ("a", "b")


def test_name_of_a_static_member_is_read() -> None:
    scala = parse_reason(
        "Adding new member m with group instance id Some(s); client reason: not provided"
    )
    java = parse_reason("Adding new member m with group instance id s; client reason: not provided")
    assert (scala.instance, java.instance) == ("s", "s")


def test_reason_that_a_client_did_not_give_is_empty() -> None:
    # Kafka puts words in its place that are no client's reason.
    assert parse_reason("Removing member m on LeaveGroup; client reason: not provided").client == ""


def test_clients_reason_does_not_overrule_that_a_member_came() -> None:
    # A client's reason tells nothing about a member that was not there before.
    reason = "Adding new member m with group instance id None; client reason: cached metadata has "
    assert parse_reason(reason + "changed").cause == "member_joined"


def test_early_versions_do_not_tell_leaders_from_others() -> None:
    # Before 2.7 a leader that joins again is said to update its metadata.
    assert parse_reason("Updating metadata for member m").may_be_leader
    assert not parse_reason("Updating metadata for member m during Stable").may_be_leader


def test_administrators_are_known_by_their_reason() -> None:
    # Kafka's own client for administrators gives that reason.
    assert is_by_admin("member was removed by an admin")
    assert not is_by_admin(None)
