"""The public names of the client: a change here is a change for users."""

from __future__ import annotations

import importlib

import coterie_client
from coterie_client import events
from coterie_client.membership import events as membership_events
from coterie_client.work import events as work_events


def test_public_names_exist() -> None:
    assert len(set(coterie_client.__all__)) == len(coterie_client.__all__)
    for name in coterie_client.__all__:
        assert getattr(coterie_client, name) is not None


def test_public_names_are_pinned() -> None:
    promised = {
        "Assigned",
        "ClosedError",
        "Group",
        "GroupMisuseError",
        "Lost",
        "Partition",
        "PartitionLostError",
        "Phase",
        "Position",
        "Release",
        "Restart",
        "Revoked",
        "Sasl",
        "Security",
        "Stop",
        "Tls",
    }
    assert promised <= set(coterie_client.__all__)


def test_all_events_are_public() -> None:
    for module in (membership_events, work_events):
        assert set(module.__all__) <= set(events.__all__)


def test_events_shadow_no_other_public_name() -> None:
    for name in set(events.__all__) & set(coterie_client.__all__):
        assert getattr(events, name) is getattr(coterie_client, name)


def test_modules_promise_what_they_have() -> None:
    for name in (
        "changes",
        "counters",
        "driver",
        "events",
        "group",
        "partition",
        "partition_owner",
    ):
        module = importlib.import_module(f"coterie_client.{name}")
        assert all(hasattr(module, each) for each in module.__all__)
