"""Kafka's errors as exceptions: one class per error code, all importable from here.

A class is named after its code, `UNKNOWN_MEMBER_ID` giving `UnknownMemberIdError`; the endings
`_ERROR` and `_EXCEPTION` of a code's name are dropped first.  What a client may do about an error
decides which of these it belongs to:

    KafkaError                  give up, or change the request
    └── RetriableKafkaError             wait and send the same request again
        └── RefreshRetriableError       find the responsible node first
            └── InvalidMetadataError    refresh the metadata of the topics first

Every class carries `code`, `name`, `retriable` and `default_message`, every instance also
`detail`.  These four have no code of their own and serve `except` clauses only.
"""

from __future__ import annotations

from typing import ClassVar

from coterie_protocol.error_codes import ErrorCode, retriable_codes
from coterie_protocol.exceptions import CoterieError

_class_by_code: dict[ErrorCode, type[KafkaError]] = {}


class KafkaError(CoterieError):
    """An error that has a code in Kafka's protocol.

    Every code but `NONE` has one subclass, declared with the number as its `code` argument; its
    docstring is the message that operators read.  A subclass declared without `code` shares its
    parent's code and leaves the registry as it is.

    `detail` says what the error happened to, e.g. `"group g, member m"`.
    """

    code: ClassVar[ErrorCode]
    name: ClassVar[str]
    default_message: ClassVar[str]
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int | None = None) -> None:
        super().__init_subclass__()
        if code is None:
            return
        cls.code = ErrorCode(code)
        _register(cls)
        cls.name = cls.code.name
        # Under `python -OO` there are no docstrings, and the name has to do.
        cls.default_message = cls.__doc__ or cls.name

    def __init__(self, detail: str | None = None) -> None:
        if not hasattr(type(self), "code"):
            raise TypeError(f"{type(self).__name__} has no error code: raise one of its subclasses")
        # No placeholder in `args`: repr() shows how to make the error again.
        super().__init__(*(() if detail is None else (detail,)))
        self.detail = detail

    def __str__(self) -> str:
        line = f"{self.name} ({self.code.value}): {self.default_message}"
        return f"{line.removesuffix('.')}: {self.detail}" if self.detail else line


class RetriableKafkaError(KafkaError):
    """The same request may succeed later."""

    retriable = True


class RefreshRetriableError(RetriableKafkaError):
    """The request may succeed once the client has asked again which node is responsible."""


class InvalidMetadataError(RefreshRetriableError):
    """The request may succeed once the client has refreshed its metadata of the topics."""


def class_for(code: ErrorCode) -> type[KafkaError]:
    """Return the error class of `code`; `NONE` has none and raises `ValueError`."""
    if code is ErrorCode.NONE:
        raise ValueError("NONE means success and has no error class")
    return _class_by_code[code]


def error_for(code: int, detail: str | None = None) -> KafkaError:
    """Return the error that `code` stands for.

    A number without a name gives an `UnknownServerError` whose detail tells the number.
    `NONE` is no error and raises `ValueError`.
    """
    known = ErrorCode.of(code)
    if known != code:
        note = f"unknown error code {code}"
        return UnknownServerError(f"{note}, {detail}" if detail else note)
    return class_for(known)(detail)


def raise_for(code: int, detail: str | None = None) -> None:
    """Raise the error that `code` stands for; return if it is `NONE`."""
    if code != ErrorCode.NONE:
        raise error_for(code, detail)


def _register(cls: type[KafkaError]) -> None:
    if cls.code is ErrorCode.NONE:
        raise TypeError(f"{cls.__name__} cannot stand for NONE, which means success")
    taken_by = _class_by_code.setdefault(cls.code, cls)
    if taken_by is not cls:
        raise TypeError(
            f"{cls.__name__} cannot stand for {cls.code.name}: {taken_by.__name__} does already"
        )
    if cls.retriable:
        retriable_codes.add(cls.code)


# Names, numbers and base classes are those of Kafka 4.3; the messages are Coterie's own.
# Coterie's coordinator sends few of these, but a client may be talking to a Kafka broker.
# fmt: off
class UnknownServerError(KafkaError, code=-1):
    """The request failed for a reason without a name; the server's log may say more."""
class OffsetOutOfRangeError(KafkaError, code=1):
    """The offset lies outside what the partition holds."""
class CorruptMessageError(RetriableKafkaError, code=2):
    """The records are damaged: a checksum or a size does not match."""
class UnknownTopicOrPartitionError(InvalidMetadataError, code=3):
    """No such topic or partition is known here."""
class InvalidFetchSizeError(KafkaError, code=4):
    """The fetch asks for an impossible number of bytes."""
class LeaderNotAvailableError(InvalidMetadataError, code=5):
    """The partition has no leader at the moment; an election may be under way."""
class NotLeaderOrFollowerError(InvalidMetadataError, code=6):
    """Another node holds the partition; the client's metadata is out of date."""
class RequestTimedOutError(RetriableKafkaError, code=7):
    """The request ran out of time before the server could finish it."""
class BrokerNotAvailableError(KafkaError, code=8):
    """The broker that was asked for is not running."""
class ReplicaNotAvailableError(InvalidMetadataError, code=9):
    """The node should hold a replica of the partition but does not, for now."""
class MessageTooLargeError(KafkaError, code=10):
    """A record is larger than the server accepts."""
class StaleControllerEpochError(KafkaError, code=11):
    """The request comes from a controller that has been replaced."""
class OffsetMetadataTooLargeError(KafkaError, code=12):
    """The metadata committed along with the offset is too long."""
class NetworkError(InvalidMetadataError, code=13):
    """The connection broke before a reply arrived."""
class CoordinatorLoadInProgressError(RetriableKafkaError, code=14):
    """The coordinator is still loading its groups; try again shortly."""
class CoordinatorNotAvailableError(RefreshRetriableError, code=15):
    """Nothing can coordinate this group at the moment; try again shortly."""
class NotCoordinatorError(RefreshRetriableError, code=16):
    """Another node coordinates this group; ask again which one."""
class InvalidTopicError(KafkaError, code=17):
    """The topic's name is malformed or reserved."""
class RecordListTooLargeError(KafkaError, code=18):
    """The batch of records is larger than a log segment may be."""
class NotEnoughReplicasError(RetriableKafkaError, code=19):
    """Too few replicas are in sync to accept the write."""
class NotEnoughReplicasAfterAppendError(RetriableKafkaError, code=20):
    """The write is in the log, but too few replicas were in sync to confirm it."""
class InvalidRequiredAcksError(KafkaError, code=21):
    """The number of required acknowledgements is not -1, 0 or 1."""
class IllegalGenerationError(KafkaError, code=22):
    """The request names a generation that is not the group's current one."""
class InconsistentGroupProtocolError(KafkaError, code=23):
    """The member's protocols do not fit those of the group."""
class InvalidGroupIdError(KafkaError, code=24):
    """The group id is empty or otherwise not acceptable."""
class UnknownMemberIdError(KafkaError, code=25):
    """The group has no member with this id; the member must join anew."""
class InvalidSessionTimeoutError(KafkaError, code=26):
    """The session timeout lies outside the range that the server allows."""
class RebalanceInProgressError(KafkaError, code=27):
    """A rebalance is under way; the member must rejoin."""
class InvalidCommitOffsetSizeError(KafkaError, code=28):
    """The commit does not fit into the largest record the server accepts."""
class TopicAuthorizationFailedError(KafkaError, code=29):
    """The client may not use this topic."""
class GroupAuthorizationFailedError(KafkaError, code=30):
    """The client may not use this group."""
class ClusterAuthorizationFailedError(KafkaError, code=31):
    """The client may not perform this operation on the cluster."""
class InvalidTimestampError(KafkaError, code=32):
    """A record's timestamp lies outside the range the server accepts."""
class UnsupportedSaslMechanismError(KafkaError, code=33):
    """The server offers other SASL mechanisms, but not this one."""
class IllegalSaslStateError(KafkaError, code=34):
    """The request does not fit the present step of the SASL handshake."""
class UnsupportedVersionError(KafkaError, code=35):
    """The server does not speak this version of the request."""
class TopicAlreadyExistsError(KafkaError, code=36):
    """The topic cannot be created because its name is taken."""
class InvalidPartitionsError(KafkaError, code=37):
    """The number of partitions is not acceptable."""
class InvalidReplicationFactorError(KafkaError, code=38):
    """The replication factor is not acceptable."""
class InvalidReplicaAssignmentError(KafkaError, code=39):
    """The replicas named for the partition are not acceptable."""
class InvalidConfigError(KafkaError, code=40):
    """A setting has a value that is not acceptable."""
class NotControllerError(RetriableKafkaError, code=41):
    """Another node is the controller."""
class InvalidRequestError(KafkaError, code=42):
    """The server could not make sense of the request's fields."""
class UnsupportedForMessageFormatError(KafkaError, code=43):
    """The log's message format is too old for this request."""
class PolicyViolationError(KafkaError, code=44):
    """The request breaks a policy that the server enforces."""
class OutOfOrderSequenceNumberError(KafkaError, code=45):
    """A batch of this producer is missing before this one."""
class DuplicateSequenceNumberError(KafkaError, code=46):
    """The broker has this batch of the producer already."""
class InvalidProducerEpochError(KafkaError, code=47):
    """The producer's epoch is out of date; a newer producer took its place."""
class InvalidTxnStateError(KafkaError, code=48):
    """The transaction is not in a state that permits this step."""
class InvalidProducerIdMappingError(KafkaError, code=49):
    """The producer id does not belong to this transactional id."""
class InvalidTransactionTimeoutError(KafkaError, code=50):
    """The transaction timeout is longer than the server allows."""
class ConcurrentTransactionsError(RetriableKafkaError, code=51):
    """The transaction's previous step is still being worked on."""
class TransactionCoordinatorFencedError(KafkaError, code=52):
    """The transaction coordinator that sent this has been replaced."""
class TransactionalIdAuthorizationFailedError(KafkaError, code=53):
    """The client may not use this transactional id."""
class SecurityDisabledError(KafkaError, code=54):
    """The server runs with security switched off."""
class OperationNotAttemptedError(KafkaError, code=55):
    """The operation was skipped because another one of the request failed."""
class KafkaStorageError(InvalidMetadataError, code=56):
    """The broker cannot read or write its disk."""
class LogDirNotFoundError(KafkaError, code=57):
    """The broker has no such log directory."""
class SaslAuthenticationFailedError(KafkaError, code=58):
    """The credentials were refused."""
class UnknownProducerIdError(KafkaError, code=59):
    """The broker remembers nothing of this producer id."""
class ReassignmentInProgressError(KafkaError, code=60):
    """The partition's replicas are being moved at this moment."""
class DelegationTokenAuthDisabledError(KafkaError, code=61):
    """The server does not issue delegation tokens."""
class DelegationTokenNotFoundError(KafkaError, code=62):
    """There is no such delegation token."""
class DelegationTokenOwnerMismatchError(KafkaError, code=63):
    """The client neither owns this delegation token nor may renew it."""
class DelegationTokenRequestNotAllowedError(KafkaError, code=64):
    """Delegation tokens may not be used over this kind of connection."""
class DelegationTokenAuthorizationFailedError(KafkaError, code=65):
    """The client may not use this delegation token."""
class DelegationTokenExpiredError(KafkaError, code=66):
    """The delegation token's lifetime is over."""
class InvalidPrincipalTypeError(KafkaError, code=67):
    """Principals of this type cannot be used here."""
class NonEmptyGroupError(KafkaError, code=68):
    """The group still has members, so this operation is refused."""
class GroupIdNotFoundError(KafkaError, code=69):
    """There is no group with this id."""
class FetchSessionIdNotFoundError(RetriableKafkaError, code=70):
    """The broker does not know this fetch session; start a new one."""
class InvalidFetchSessionEpochError(RetriableKafkaError, code=71):
    """The fetch session's epoch does not follow the previous one; start a new session."""
class ListenerNotFoundError(InvalidMetadataError, code=72):
    """The partition's leader has no listener of the kind this client connected through."""
class TopicDeletionDisabledError(KafkaError, code=73):
    """The server does not permit topics to be deleted."""
class FencedLeaderEpochError(InvalidMetadataError, code=74):
    """The request carries an older leader epoch than the broker's."""
class UnknownLeaderEpochError(RetriableKafkaError, code=75):
    """The request carries a newer leader epoch than the broker's."""
class UnsupportedCompressionTypeError(KafkaError, code=76):
    """The client cannot read the compression that this partition uses."""
class StaleBrokerEpochError(KafkaError, code=77):
    """The broker has registered again since; this epoch is over."""
class OffsetNotAvailableError(RetriableKafkaError, code=78):
    """The new leader does not know its end offset for certain yet."""
class MemberIdRequiredError(KafkaError, code=79):
    """The member must join again with the member id it was just given."""
class PreferredLeaderNotAvailableError(InvalidMetadataError, code=80):
    """The replica that is preferred as leader cannot lead for now."""
class GroupMaxSizeReachedError(KafkaError, code=81):
    """The group has as many members as it may have."""
class FencedInstanceIdError(KafkaError, code=82):
    """Another member has taken over this group.instance.id."""
class EligibleLeadersNotAvailableError(InvalidMetadataError, code=83):
    """None of the replicas that may lead the partition is available."""
class ElectionNotNeededError(InvalidMetadataError, code=84):
    """The partition has a suitable leader already, so no election is needed."""
class NoReassignmentInProgressError(KafkaError, code=85):
    """No replicas of this partition are being moved."""
class GroupSubscribedToTopicError(KafkaError, code=86):
    """The group is subscribed to this topic, so its offsets cannot be deleted."""
class InvalidRecordError(KafkaError, code=87):
    """The broker examined the record and turned it down."""
class UnstableOffsetCommitError(RetriableKafkaError, code=88):
    """A transaction that commits offsets is still open; its outcome is awaited."""
class ThrottlingQuotaExceededError(RetriableKafkaError, code=89):
    """The client exceeds its quota; it should slow down."""
class ProducerFencedError(KafkaError, code=90):
    """Another producer took over this transactional id; this one is fenced."""
class ResourceNotFoundError(KafkaError, code=91):
    """The request refers to something that does not exist."""
class DuplicateResourceError(KafkaError, code=92):
    """The request names the same thing twice."""
class UnacceptableCredentialError(KafkaError, code=93):
    """The credential is not strong enough or is malformed."""
class InconsistentVoterSetError(KafkaError, code=94):
    """The sender or the receiver does not belong to the quorum's voters."""
class InvalidUpdateVersionError(KafkaError, code=95):
    """The update is based on a version that cannot be accepted."""
class FeatureUpdateFailedError(KafkaError, code=96):
    """The feature levels could not be changed."""
class PrincipalDeserializationFailureError(KafkaError, code=97):
    """A forwarded request's principal could not be read."""
class SnapshotNotFoundError(KafkaError, code=98):
    """There is no such snapshot."""
class PositionOutOfRangeError(KafkaError, code=99):
    """The position lies outside the snapshot."""
class UnknownTopicIdError(InvalidMetadataError, code=100):
    """No topic with this id is known here."""
class DuplicateBrokerRegistrationError(KafkaError, code=101):
    """Another broker is registered under this id."""
class BrokerIdNotRegisteredError(KafkaError, code=102):
    """No broker is registered under this id."""
class InconsistentTopicIdError(InvalidMetadataError, code=103):
    """The log on this broker belongs to a topic with another id."""
class InconsistentClusterIdError(KafkaError, code=104):
    """The request is meant for another cluster."""
class TransactionalIdNotFoundError(KafkaError, code=105):
    """There is no such transactional id."""
class FetchSessionTopicIdError(RetriableKafkaError, code=106):
    """The fetch session mixes topic names and topic ids."""
class IneligibleReplicaError(KafkaError, code=107):
    """A replica proposed as in sync may not be in that set."""
class NewLeaderElectedError(KafkaError, code=108):
    """The partition's state was changed, and with it came another leader."""
class OffsetMovedToTieredStorageError(KafkaError, code=109):
    """The offset has moved to tiered storage and is no longer on local disk."""
class FencedMemberEpochError(KafkaError, code=110):
    """The member's epoch is fenced; it must give up its partitions and join anew."""
class UnreleasedInstanceIdError(KafkaError, code=111):
    """Another member still holds this instance id and has to leave first."""
class UnsupportedAssignorError(KafkaError, code=112):
    """The group does not support this assignor."""
class StaleMemberEpochError(KafkaError, code=113):
    """The member's epoch is out of date; a heartbeat will bring the new one."""
class MismatchedEndpointTypeError(KafkaError, code=114):
    """The request was sent to an endpoint that serves another purpose."""
class UnsupportedEndpointTypeError(KafkaError, code=115):
    """The server has no support for endpoints of this type."""
class UnknownControllerIdError(KafkaError, code=116):
    """No controller with this id is known."""
class UnknownSubscriptionIdError(KafkaError, code=117):
    """The metrics were pushed under a subscription that is not current."""
class TelemetryTooLargeError(KafkaError, code=118):
    """The pushed metrics are larger than the server accepts."""
class InvalidRegistrationError(KafkaError, code=119):
    """The controller did not accept the broker's registration."""
class TransactionAbortableError(KafkaError, code=120):
    """The transaction cannot go on; abort it, and the producer remains usable."""
class InvalidRecordStateError(KafkaError, code=121):
    """The record is not in a state in which it can be acknowledged like this."""
class ShareSessionNotFoundError(RetriableKafkaError, code=122):
    """The broker does not know this share session; start a new one."""
class InvalidShareSessionEpochError(RetriableKafkaError, code=123):
    """The share session's epoch does not follow the previous one; start a new session."""
class FencedStateEpochError(KafkaError, code=124):
    """The share group's state has moved on to another epoch."""
class InvalidVoterKeyError(KafkaError, code=125):
    """The voter key is not the receiver's own."""
class DuplicateVoterError(KafkaError, code=126):
    """The node is a voter already."""
class VoterNotFoundError(KafkaError, code=127):
    """The node is not a voter."""
class InvalidRegularExpressionError(KafkaError, code=128):
    """The regular expression of the subscription does not parse."""
class RebootstrapRequiredError(KafkaError, code=129):
    """The client should drop what it knows of the cluster and bootstrap again."""
class StreamsInvalidTopologyError(KafkaError, code=130):
    """The streams topology is malformed."""
class StreamsInvalidTopologyEpochError(KafkaError, code=131):
    """The streams topology's epoch does not follow the group's."""
class StreamsTopologyFencedError(KafkaError, code=132):
    """The member runs an older streams topology than its group."""
class ShareSessionLimitReachedError(RetriableKafkaError, code=133):
    """The broker keeps as many share sessions as it may."""
# fmt: on
