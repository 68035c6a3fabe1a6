"""What Kafka checks of requests about rights, users and quotas: rights on the cluster."""

from __future__ import annotations

from typing import Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import Operation
from coterie_server.security.screening.asking import PASS, Asking, Refused, Verdict

__all__ = [
    "alter_users",
    "create_acls",
    "delete_acls",
    "describe_acls",
    "describe_quotas",
    "describe_users",
]

_REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = "Cluster authorization failed."


def describe_acls(asking: Asking, message: m.DescribeAclsRequest, version: int) -> Verdict:
    """DESCRIBE on the cluster."""
    del message, version
    if asking.may_in_cluster(Operation.DESCRIBE):
        return PASS
    return Refused(m.DescribeAclsResponse(error_code=_REFUSED, error_message=_TEXT, resources=()))


def create_acls(asking: Asking, message: m.CreateAclsRequest, version: int) -> Verdict:
    """ALTER on the cluster."""
    del version
    if asking.may_in_cluster(Operation.ALTER):
        return PASS
    result = m.AclCreationResult(error_code=_REFUSED, error_message=_TEXT)
    return Refused(m.CreateAclsResponse(results=(result,) * len(message.creations)))


def delete_acls(asking: Asking, message: m.DeleteAclsRequest, version: int) -> Verdict:
    """ALTER on the cluster."""
    del version
    if asking.may_in_cluster(Operation.ALTER):
        return PASS
    result = m.DeleteAclsFilterResult(error_code=_REFUSED, error_message=_TEXT, matching_acls=())
    return Refused(m.DeleteAclsResponse(filter_results=(result,) * len(message.filters)))


def describe_users(
    asking: Asking, message: m.DescribeUserScramCredentialsRequest, version: int
) -> Verdict:
    """DESCRIBE on the cluster."""
    del version
    if asking.may_in_cluster(Operation.DESCRIBE):
        return PASS
    # Kafka's has no texts, nor the users' names.
    result = m.DescribeUserScramCredentialsResult(
        user="", error_code=_REFUSED, error_message=None, credential_infos=()
    )
    results = (result,) * len(message.users or ())
    return Refused(
        m.DescribeUserScramCredentialsResponse(
            error_code=_REFUSED, error_message=None, results=results
        )
    )


def describe_quotas(
    asking: Asking, message: m.DescribeClientQuotasRequest, version: int
) -> Verdict:
    """DESCRIBE_CONFIGS on the cluster."""
    del message, version
    if asking.may_in_cluster(Operation.DESCRIBE_CONFIGS):
        return PASS
    # As with users, Kafka's has no text.
    return Refused(
        m.DescribeClientQuotasResponse(error_code=_REFUSED, error_message=None, entries=None)
    )


def alter_users(
    asking: Asking, message: m.AlterUserScramCredentialsRequest, version: int
) -> Verdict:
    """ALTER on the cluster."""
    del version
    if asking.may_in_cluster(Operation.ALTER):
        return PASS
    deleted, set_anew = message.deletions, message.upsertions
    users = sorted({each.name for each in deleted} | {each.name for each in set_anew})
    results = tuple(
        m.AlterUserScramCredentialsResult(user=user, error_code=_REFUSED, error_message=_TEXT)
        for user in users
    )
    return Refused(m.AlterUserScramCredentialsResponse(results=results))
