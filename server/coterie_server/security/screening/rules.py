"""Which rule each request is screened by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_server.security.screening import cluster, groups, offsets, topic_changes, topics
from coterie_server.security.screening.asking import PASS, Asking, Verdict
from coterie_server.turns import begin

if TYPE_CHECKING:
    from coterie_server.turns import Making, Unfinished

__all__ = ["FREE", "screen"]

#: What is asked before a client has said who it is.
FREE: Final = frozenset({m.ApiVersionsRequest, m.SaslAuthenticateRequest, m.SaslHandshakeRequest})

_AT_ONCE: Final[dict[type[Any], Callable[[Asking, Any, int], Verdict]]] = {
    m.AlterUserScramCredentialsRequest: cluster.alter_users,
    m.CreateAclsRequest: cluster.create_acls,
    m.DeleteAclsRequest: cluster.delete_acls,
    m.DescribeAclsRequest: cluster.describe_acls,
    m.DescribeClientQuotasRequest: cluster.describe_quotas,
    m.DescribeUserScramCredentialsRequest: cluster.describe_users,
    m.FetchRequest: topics.fetch,
    m.HeartbeatRequest: groups.heartbeat,
    m.JoinGroupRequest: groups.join,
    m.LeaveGroupRequest: groups.leave,
    m.ListGroupsRequest: groups.list_groups,
    m.OffsetCommitRequest: offsets.commit,
    m.OffsetDeleteRequest: offsets.delete_offsets,
    m.ProduceRequest: topics.produce,
    m.SyncGroupRequest: groups.sync,
}

_IN_TURNS: Final[dict[type[Any], Callable[[Asking, Any, int], Making[Verdict]]]] = {
    m.CreatePartitionsRequest: topic_changes.create_partitions,
    m.CreateTopicsRequest: topic_changes.create_topics,
    m.DeleteGroupsRequest: groups.delete_groups,
    m.DeleteTopicsRequest: topic_changes.delete_topics,
    m.DescribeGroupsRequest: groups.describe_groups,
    m.FindCoordinatorRequest: groups.find_coordinator,
    m.ListOffsetsRequest: topics.list_offsets,
    m.MetadataRequest: topics.metadata,
    m.OffsetFetchRequest: offsets.fetch_offsets,
}


def screen(asking: Asking, message: Any, version: int) -> Verdict | Unfinished:  # noqa: ANN401  # any request
    """What of a request its client may ask; a request without a rule is a bug, and raises."""
    kind = type(message)
    if (rule := _AT_ONCE.get(kind)) is not None:
        return rule(asking, message, version)
    if kind in FREE:
        return PASS
    return begin(_IN_TURNS[kind](asking, message, version))
