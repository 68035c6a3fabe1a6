"""Kafka's errors as exceptions: one class per error code, all of them importable from here.

A class is named after its code, `UNKNOWN_MEMBER_ID` giving `UnknownMemberIdError`; the endings
`_ERROR` and `_EXCEPTION` of a code's name are dropped first. Every class carries `code`, `name`,
`retriable` and `default_message`, every instance also `detail`:

    KafkaError
        RetriableKafkaError
            RefreshRetriableError
                InvalidMetadataError
                    UnknownTopicOrPartitionError
                    LeaderNotAvailableError
                    NotLeaderOrFollowerError
                    ReplicaNotAvailableError
                    NetworkError
                    KafkaStorageError
                    ListenerNotFoundError
                    FencedLeaderEpochError
                    PreferredLeaderNotAvailableError
                    EligibleLeadersNotAvailableError
                    ElectionNotNeededError
                    UnknownTopicIdError
                    InconsistentTopicIdError
                CoordinatorNotAvailableError
                NotCoordinatorError
            CorruptMessageError
            RequestTimedOutError
            CoordinatorLoadInProgressError
            NotEnoughReplicasError
            NotEnoughReplicasAfterAppendError
            NotControllerError
            ConcurrentTransactionsError
            FetchSessionIdNotFoundError
            InvalidFetchSessionEpochError
            UnknownLeaderEpochError
            OffsetNotAvailableError
            UnstableOffsetCommitError
            ThrottlingQuotaExceededError
            FetchSessionTopicIdError
            ShareSessionNotFoundError
            InvalidShareSessionEpochError
            ShareSessionLimitReachedError
        UnknownServerError
        OffsetOutOfRangeError
        InvalidFetchSizeError
        BrokerNotAvailableError
        MessageTooLargeError
        StaleControllerEpochError
        OffsetMetadataTooLargeError
        InvalidTopicError
        RecordListTooLargeError
        InvalidRequiredAcksError
        IllegalGenerationError
        InconsistentGroupProtocolError
        InvalidGroupIdError
        UnknownMemberIdError
        InvalidSessionTimeoutError
        RebalanceInProgressError
        InvalidCommitOffsetSizeError
        TopicAuthorizationFailedError
        GroupAuthorizationFailedError
        ClusterAuthorizationFailedError
        InvalidTimestampError
        UnsupportedSaslMechanismError
        IllegalSaslStateError
        UnsupportedVersionError
        TopicAlreadyExistsError
        InvalidPartitionsError
        InvalidReplicationFactorError
        InvalidReplicaAssignmentError
        InvalidConfigError
        InvalidRequestError
        UnsupportedForMessageFormatError
        PolicyViolationError
        OutOfOrderSequenceNumberError
        DuplicateSequenceNumberError
        InvalidProducerEpochError
        InvalidTxnStateError
        InvalidProducerIdMappingError
        InvalidTransactionTimeoutError
        TransactionCoordinatorFencedError
        TransactionalIdAuthorizationFailedError
        SecurityDisabledError
        OperationNotAttemptedError
        LogDirNotFoundError
        SaslAuthenticationFailedError
        UnknownProducerIdError
        ReassignmentInProgressError
        DelegationTokenAuthDisabledError
        DelegationTokenNotFoundError
        DelegationTokenOwnerMismatchError
        DelegationTokenRequestNotAllowedError
        DelegationTokenAuthorizationFailedError
        DelegationTokenExpiredError
        InvalidPrincipalTypeError
        NonEmptyGroupError
        GroupIdNotFoundError
        TopicDeletionDisabledError
        UnsupportedCompressionTypeError
        StaleBrokerEpochError
        MemberIdRequiredError
        GroupMaxSizeReachedError
        FencedInstanceIdError
        NoReassignmentInProgressError
        GroupSubscribedToTopicError
        InvalidRecordError
        ProducerFencedError
        ResourceNotFoundError
        DuplicateResourceError
        UnacceptableCredentialError
        InconsistentVoterSetError
        InvalidUpdateVersionError
        FeatureUpdateFailedError
        PrincipalDeserializationFailureError
        SnapshotNotFoundError
        PositionOutOfRangeError
        DuplicateBrokerRegistrationError
        BrokerIdNotRegisteredError
        InconsistentClusterIdError
        TransactionalIdNotFoundError
        IneligibleReplicaError
        NewLeaderElectedError
        OffsetMovedToTieredStorageError
        FencedMemberEpochError
        UnreleasedInstanceIdError
        UnsupportedAssignorError
        StaleMemberEpochError
        MismatchedEndpointTypeError
        UnsupportedEndpointTypeError
        UnknownControllerIdError
        UnknownSubscriptionIdError
        TelemetryTooLargeError
        InvalidRegistrationError
        TransactionAbortableError
        InvalidRecordStateError
        FencedStateEpochError
        InvalidVoterKeyError
        DuplicateVoterError
        VoterNotFoundError
        InvalidRegularExpressionError
        RebootstrapRequiredError
        StreamsInvalidTopologyError
        StreamsInvalidTopologyEpochError
        StreamsTopologyFencedError

The upper four serve `except` clauses only. What sets them apart is what the client does next:
wait and send again (`RetriableKafkaError`), find the responsible node anew first
(`RefreshRetriableError`), or refresh its metadata first (`InvalidMetadataError`).
"""

# Star imports, because the class statements are to remain the only list of the classes.
from coterie_protocol._broker_errors import *  # noqa: F403
from coterie_protocol._error_base import *  # noqa: F403
from coterie_protocol._error_base import KafkaError, class_for
from coterie_protocol._group_errors import *  # noqa: F403
from coterie_protocol._group_errors import UnknownServerError
from coterie_protocol.error_codes import ErrorCode


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
