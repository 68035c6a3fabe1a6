"""What is logged of refusals, and how much of it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from coterie_protocol.messages import DeleteAclsRequest, JoinGroupRequest
from coterie_server.log.audit import QUIET_MS, AuditLog
from coterie_server.security import ANONYMOUS, Principal
from coterie_server.security.acls import Operation, ResourceType
from coterie_server.security.screening import Refusal

ANN = Principal("User", "ann")
JOIN = JoinGroupRequest(
    group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=()
)
Lines = list[MutableMapping[str, Any]]


def refuse(
    audit: AuditLog, name: str, now_ms: int = 0, host: str = "/10.0.0.1", who: Principal = ANN
) -> None:
    """Have something refused."""
    refusal = Refusal(Operation.READ, ResourceType.GROUP, name)
    audit.refused(who, host, JOIN, refusal, now_ms)


def test_a_refusal_is_a_line_with_who_what_and_from_where(log: Lines) -> None:
    refuse(AuditLog(), "payments")
    assert log == [
        {
            "event": "refused",
            "log_level": "warning",
            "principal": "User:ann",
            "host": "10.0.0.1",
            "operation": "Read",
            "resource": "Group:payments",
            "request": "JoinGroup",
        }
    ]


def test_the_same_refusal_is_logged_once_a_minute_and_counted(log: Lines) -> None:
    audit = AuditLog()
    for _ in range(5):
        refuse(audit, "payments")
    refuse(audit, "payments", host="/10.0.0.2")
    assert [line["host"] for line in log] == ["10.0.0.1", "10.0.0.2"]
    log.clear()
    refuse(audit, "payments", QUIET_MS)
    assert [line["event"] for line in log] == ["more was refused than is logged", "refused"]
    assert (log[0]["refusals"], log[0]["different"]) == (4, 0)


def test_names_without_end_do_not_fill_the_log(log: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie_server.log.audit._LINES_MAX", 3)
    audit = AuditLog()
    for number in range(10):
        refuse(audit, f"g{number}")
    assert len(log) == 3
    refuse(audit, "g" * 10_000, QUIET_MS)
    assert (log[3]["refusals"], log[3]["different"]) == (7, 7)
    assert len(log[4]["resource"]) < 300


@pytest.mark.parametrize("loud", [ANN, ANONYMOUS])
def test_one_client_does_not_keep_what_others_try_out_of_the_log(
    log: Lines, loud: Principal
) -> None:
    audit = AuditLog()
    for number in range(1200):
        refuse(audit, f"g{number}", who=loud)
    assert len(log) == 100
    refuse(audit, "payroll", who=Principal("User", "bob"))
    refuse(audit, "payroll", who=ANONYMOUS, host="/10.0.0.2")
    assert [line["resource"] for line in log[100:]] == ["Group:payroll", "Group:payroll"]
    refuse(audit, "again", QUIET_MS, who=loud)
    assert (log[-2]["refusals"], log[-1]["resource"]) == (1100, "Group:again")


def test_a_change_of_rights_says_who_asked_for_it(log: Lines) -> None:
    AuditLog().asked(ANN, "/10.0.0.1", DeleteAclsRequest(filters=()))
    assert log == [
        {
            "event": "change of rights",
            "log_level": "info",
            "principal": "User:ann",
            "host": "10.0.0.1",
            "request": "DeleteAcls",
        }
    ]
