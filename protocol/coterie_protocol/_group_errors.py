"""Error classes of what a group coordinator and its clients tell each other.

Names, numbers and base classes are those of Kafka 4.3; the messages are Coterie's own.
Import these classes from `coterie_protocol.errors`.
"""

from coterie_protocol._error_base import (
    InvalidMetadataError,
    KafkaError,
    RefreshRetriableError,
    RetriableKafkaError,
)
from coterie_protocol.error_codes import ErrorCode

# Requests and connections


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The request failed for a reason without a name; the server's log may say more."""


class RequestTimedOutError(RetriableKafkaError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The request ran out of time before the server could finish it."""


class NetworkError(InvalidMetadataError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection broke before a reply arrived."""


class UnsupportedSaslMechanismError(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The server offers other SASL mechanisms, but not this one."""


class IllegalSaslStateError(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """The request does not fit the present step of the SASL handshake."""


class UnsupportedVersionError(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The server does not speak this version of the request."""


class InvalidRequestError(KafkaError, code=ErrorCode.INVALID_REQUEST):
    """The server could not make sense of the request's fields."""


class SaslAuthenticationFailedError(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """The credentials were refused."""


class RebootstrapRequiredError(KafkaError, code=ErrorCode.REBOOTSTRAP_REQUIRED):
    """The client should drop what it knows of the cluster and bootstrap again."""


# Topics and partitions


class UnknownTopicOrPartitionError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """No such topic or partition is known here."""


class LeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader at the moment; an election may be under way."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """Another node holds the partition; the client's metadata is out of date."""


class BrokerNotAvailableError(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker that was asked for is not running."""


class ReplicaNotAvailableError(InvalidMetadataError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The node should hold a replica of the partition but does not, for now."""


class InvalidTopicError(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic's name is malformed or reserved."""


class TopicAlreadyExistsError(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """The topic cannot be created because its name is taken."""


class InvalidPartitionsError(KafkaError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is not acceptable."""


class InvalidReplicationFactorError(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is not acceptable."""


class InvalidConfigError(KafkaError, code=ErrorCode.INVALID_CONFIG):
    """A setting has a value that is not acceptable."""


class PolicyViolationError(KafkaError, code=ErrorCode.POLICY_VIOLATION):
    """The request breaks a policy that the server enforces."""


class ListenerNotFoundError(InvalidMetadataError, code=ErrorCode.LISTENER_NOT_FOUND):
    """The partition's leader has no listener of the kind this client connected through."""


class UnknownTopicIdError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """No topic with this id is known here."""


# Permissions


class TopicAuthorizationFailedError(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """The client may not use this topic."""


class GroupAuthorizationFailedError(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """The client may not use this group."""


class ClusterAuthorizationFailedError(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """The client may not perform this operation on the cluster."""


# Finding the coordinator


class CoordinatorLoadInProgressError(
    RetriableKafkaError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
):
    """The coordinator is still loading its groups; try again shortly."""


class CoordinatorNotAvailableError(RefreshRetriableError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """Nothing can coordinate this group at the moment; try again shortly."""


class NotCoordinatorError(RefreshRetriableError, code=ErrorCode.NOT_COORDINATOR):
    """Another node coordinates this group; ask again which one."""


# Group membership


class IllegalGenerationError(KafkaError, code=ErrorCode.ILLEGAL_GENERATION):
    """The request names a generation that is not the group's current one."""


class InconsistentGroupProtocolError(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member's protocols do not fit those of the group."""


class InvalidGroupIdError(KafkaError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is empty or otherwise not acceptable."""


class UnknownMemberIdError(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group has no member with this id; the member must join anew."""


class InvalidSessionTimeoutError(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """The session timeout lies outside the range that the server allows."""


class RebalanceInProgressError(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """A rebalance is under way; the member must rejoin."""


class NonEmptyGroupError(KafkaError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group still has members, so this operation is refused."""


class GroupIdNotFoundError(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """There is no group with this id."""


class MemberIdRequiredError(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """The member must join again with the member id it was just given."""


class GroupMaxSizeReachedError(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group has as many members as it may have."""


class FencedInstanceIdError(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another member has taken over this group.instance.id."""


class FencedMemberEpochError(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member's epoch is fenced; it must give up its partitions and join anew."""


class UnreleasedInstanceIdError(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    """Another member still holds this instance id and has to leave first."""


class UnsupportedAssignorError(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    """The group does not support this assignor."""


class StaleMemberEpochError(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH):
    """The member's epoch is out of date; a heartbeat will bring the new one."""


class InvalidRegularExpressionError(KafkaError, code=ErrorCode.INVALID_REGULAR_EXPRESSION):
    """The regular expression of the subscription does not parse."""


# Offsets


class OffsetOutOfRangeError(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset lies outside what the partition holds."""


class OffsetMetadataTooLargeError(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata committed along with the offset is too long."""


class InvalidCommitOffsetSizeError(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE):
    """The commit does not fit into the largest record the server accepts."""


class OffsetNotAvailableError(RetriableKafkaError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The new leader does not know its end offset for certain yet."""


class GroupSubscribedToTopicError(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """The group is subscribed to this topic, so its offsets cannot be deleted."""


class UnstableOffsetCommitError(RetriableKafkaError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """A transaction that commits offsets is still open; its outcome is awaited."""
