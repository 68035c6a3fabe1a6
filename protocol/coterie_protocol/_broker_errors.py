"""Error classes of Kafka's storing half: logs, replicas, controllers, transactions, security.

Coterie's coordinator sends hardly any of them. They are here because a reply may come from a
Kafka broker, and an error that arrives should be told by its name rather than by its number.
Import these classes from `coterie_protocol.errors`.
"""

from coterie_protocol._error_base import InvalidMetadataError, KafkaError, RetriableKafkaError
from coterie_protocol.error_codes import ErrorCode

# Records and logs


class CorruptMessageError(RetriableKafkaError, code=ErrorCode.CORRUPT_MESSAGE):
    """The records are damaged: a checksum or a size does not match."""


class InvalidFetchSizeError(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE):
    """The fetch asks for an impossible number of bytes."""


class MessageTooLargeError(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record is larger than the server accepts."""


class RecordListTooLargeError(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """The batch of records is larger than a log segment may be."""


class InvalidTimestampError(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A record's timestamp lies outside the range the server accepts."""


class UnsupportedForMessageFormatError(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The log's message format is too old for this request."""


class KafkaStorageError(InvalidMetadataError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The broker cannot read or write its disk."""


class LogDirNotFoundError(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """The broker has no such log directory."""


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The client cannot read the compression that this partition uses."""


class InvalidRecordError(KafkaError, code=ErrorCode.INVALID_RECORD):
    """The broker examined the record and turned it down."""


class OffsetMovedToTieredStorageError(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
    """The offset has moved to tiered storage and is no longer on local disk."""


# Fetch sessions


class FetchSessionIdNotFoundError(RetriableKafkaError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
    """The broker does not know this fetch session; start a new one."""


class InvalidFetchSessionEpochError(
    RetriableKafkaError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
):
    """The fetch session's epoch does not follow the previous one; start a new session."""


class FetchSessionTopicIdError(RetriableKafkaError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
    """The fetch session mixes topic names and topic ids."""


# Replication and leadership


class NotEnoughReplicasError(RetriableKafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Too few replicas are in sync to accept the write."""


class NotEnoughReplicasAfterAppendError(
    RetriableKafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
):
    """The write is in the log, but too few replicas were in sync to confirm it."""


class InvalidRequiredAcksError(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """The number of required acknowledgements is not -1, 0 or 1."""


class InvalidReplicaAssignmentError(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The replicas named for the partition are not acceptable."""


class ReassignmentInProgressError(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """The partition's replicas are being moved at this moment."""


class FencedLeaderEpochError(InvalidMetadataError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The request carries an older leader epoch than the broker's."""


class UnknownLeaderEpochError(RetriableKafkaError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The request carries a newer leader epoch than the broker's."""


class PreferredLeaderNotAvailableError(
    InvalidMetadataError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
):
    """The replica that is preferred as leader cannot lead for now."""


class EligibleLeadersNotAvailableError(
    InvalidMetadataError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
):
    """None of the replicas that may lead the partition is available."""


class ElectionNotNeededError(InvalidMetadataError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The partition has a suitable leader already, so no election is needed."""


class NoReassignmentInProgressError(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """No replicas of this partition are being moved."""


class InconsistentTopicIdError(InvalidMetadataError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The log on this broker belongs to a topic with another id."""


class IneligibleReplicaError(KafkaError, code=ErrorCode.INELIGIBLE_REPLICA):
    """A replica proposed as in sync may not be in that set."""


class NewLeaderElectedError(KafkaError, code=ErrorCode.NEW_LEADER_ELECTED):
    """The partition's state was changed, and with it came another leader."""


# Brokers and the controller


class StaleControllerEpochError(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """The request comes from a controller that has been replaced."""


class NotControllerError(RetriableKafkaError, code=ErrorCode.NOT_CONTROLLER):
    """Another node is the controller."""


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker has registered again since; this epoch is over."""


class DuplicateBrokerRegistrationError(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another broker is registered under this id."""


class BrokerIdNotRegisteredError(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """No broker is registered under this id."""


class InconsistentClusterIdError(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """The request is meant for another cluster."""


class MismatchedEndpointTypeError(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    """The request was sent to an endpoint that serves another purpose."""


class UnsupportedEndpointTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE):
    """The server has no support for endpoints of this type."""


class UnknownControllerIdError(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """No controller with this id is known."""


class InvalidRegistrationError(KafkaError, code=ErrorCode.INVALID_REGISTRATION):
    """The controller did not accept the broker's registration."""


# Quorum, snapshots and features


class InconsistentVoterSetError(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """The sender or the receiver does not belong to the quorum's voters."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The update is based on a version that cannot be accepted."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The feature levels could not be changed."""


class SnapshotNotFoundError(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """There is no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """The position lies outside the snapshot."""


class InvalidVoterKeyError(KafkaError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter key is not the receiver's own."""


class DuplicateVoterError(KafkaError, code=ErrorCode.DUPLICATE_VOTER):
    """The node is a voter already."""


class VoterNotFoundError(KafkaError, code=ErrorCode.VOTER_NOT_FOUND):
    """The node is not a voter."""


# Producers and transactions


class OutOfOrderSequenceNumberError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """A batch of this producer is missing before this one."""


class DuplicateSequenceNumberError(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The broker has this batch of the producer already."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """The producer's epoch is out of date; a newer producer took its place."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that permits this step."""


class InvalidProducerIdMappingError(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to this transactional id."""


class InvalidTransactionTimeoutError(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is longer than the server allows."""


class ConcurrentTransactionsError(RetriableKafkaError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The transaction's previous step is still being worked on."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """The transaction coordinator that sent this has been replaced."""


class TransactionalIdAuthorizationFailedError(
    KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
):
    """The client may not use this transactional id."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker remembers nothing of this producer id."""


class ProducerFencedError(KafkaError, code=ErrorCode.PRODUCER_FENCED):
    """Another producer took over this transactional id; this one is fenced."""


class TransactionalIdNotFoundError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """There is no such transactional id."""


class TransactionAbortableError(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction cannot go on; abort it, and the producer remains usable."""


# Administration and security


class SecurityDisabledError(KafkaError, code=ErrorCode.SECURITY_DISABLED):
    """The server runs with security switched off."""


class OperationNotAttemptedError(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """The operation was skipped because another one of the request failed."""


class DelegationTokenAuthDisabledError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """The server does not issue delegation tokens."""


class DelegationTokenNotFoundError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatchError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """The client neither owns this delegation token nor may renew it."""


class DelegationTokenRequestNotAllowedError(
    KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
):
    """Delegation tokens may not be used over this kind of connection."""


class DelegationTokenAuthorizationFailedError(
    KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
):
    """The client may not use this delegation token."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token's lifetime is over."""


class InvalidPrincipalTypeError(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """Principals of this type cannot be used here."""


class TopicDeletionDisabledError(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """The server does not permit topics to be deleted."""


class ThrottlingQuotaExceededError(RetriableKafkaError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """The client exceeds its quota; it should slow down."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The request refers to something that does not exist."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The request names the same thing twice."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential is not strong enough or is malformed."""


class PrincipalDeserializationFailureError(
    KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
):
    """A forwarded request's principal could not be read."""


class UnknownSubscriptionIdError(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """The metrics were pushed under a subscription that is not current."""


class TelemetryTooLargeError(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """The pushed metrics are larger than the server accepts."""


# Share groups


class InvalidRecordStateError(KafkaError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is not in a state in which it can be acknowledged like this."""


class ShareSessionNotFoundError(RetriableKafkaError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """The broker does not know this share session; start a new one."""


class InvalidShareSessionEpochError(
    RetriableKafkaError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH
):
    """The share session's epoch does not follow the previous one; start a new session."""


class FencedStateEpochError(KafkaError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The share group's state has moved on to another epoch."""


class ShareSessionLimitReachedError(
    RetriableKafkaError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED
):
    """The broker keeps as many share sessions as it may."""


# Streams groups


class StreamsInvalidTopologyError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY):
    """The streams topology is malformed."""


class StreamsInvalidTopologyEpochError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH):
    """The streams topology's epoch does not follow the group's."""


class StreamsTopologyFencedError(KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_FENCED):
    """The member runs an older streams topology than its group."""
