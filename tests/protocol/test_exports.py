"""The public names of the protocol package: a change here is a change to announce."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import coterie_protocol
from coterie_protocol import errors, messages
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import declarations

# Sorted as Python sorts: capitals first.
PUBLIC = {
    "coterie_protocol": """
        API_VERSIONS ApiKey CoterieError EncodeError FRAME_SIZE_LIMIT FrameReader KafkaError
        ProtocolError Request RequestHeader UnsupportedRequest correlation_id_of decode
        decode_request decode_request_header decode_response encode encode_request encode_response
        encode_response_in_turns
        request_class response_class
    """,
    "coterie_protocol.api_keys": """
        ApiKey
    """,
    "coterie_protocol.blocks": """
        add_block take_block
    """,
    "coterie_protocol.codec": """
        API_VERSIONS Request RequestHeader correlation_id_of decode decode_request
        decode_request_header decode_response encode encode_request encode_response
        encode_response_in_turns
        request_class response_class
    """,
    "coterie_protocol.committed": """
        CommitDecoder CommittedPartitions
    """,
    "coterie_protocol.consumer": """
        Assignment CooperativeStickyData NEEDS_REJOIN StickyData Subscription TopicPartitions
        decode_assignment decode_cooperative_sticky_data decode_sticky_data decode_subscription
        encode_assignment encode_sticky_data encode_subscription flatten group_by_topic
    """,
    "coterie_protocol.error_codes": """
        ErrorCode
    """,
    "coterie_protocol.exceptions": """
        CoterieError EncodeError ProtocolError UnsupportedRequest
    """,
    "coterie_protocol.extras": """
        MissingExtraError needs_extra
    """,
    "coterie_protocol.file_errors": """
        naming
    """,
    "coterie_protocol.framing": """
        FRAME_SIZE_LIMIT FrameReader
    """,
    "coterie_protocol.line_breaks": """
        first_line_end line_start
    """,
    "coterie_protocol.loads": """
        LOAD_MAX Load LoadReport join_load_report split_load_report
    """,
    "coterie_protocol.member_data": """
        ADDRESS_BYTES_MAX LABELS_MAX LABEL_BYTES_MAX MemberData join_member_data split_member_data
        unsound
    """,
    "coterie_protocol.messages": """
        AbortedTransaction AclCreation AclCreationResult AclDescription
        AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse
        AlterUserScramCredentialsResult ApiVersion ApiVersionsRequest ApiVersionsResponse
        BatchIndexAndErrorMessage Coordinator CreatableReplicaAssignment CreatableTopic
        CreatableTopicConfig CreatableTopicConfigs CreatableTopicResult CreateAclsRequest
        CreateAclsResponse CreatePartitionsAssignment CreatePartitionsRequest
        CreatePartitionsResponse CreatePartitionsTopic CreatePartitionsTopicResult
        CreateTopicsRequest CreateTopicsResponse CredentialInfo DeletableGroupResult
        DeletableTopicResult DeleteAclsFilter DeleteAclsFilterResult DeleteAclsMatchingAcl
        DeleteAclsRequest DeleteAclsResponse DeleteGroupsRequest DeleteGroupsResponse
        DeleteTopicState DeleteTopicsRequest DeleteTopicsResponse DescribeAclsRequest
        DescribeAclsResource DescribeAclsResponse DescribeClientQuotasRequest
        DescribeClientQuotasResponse DescribeGroupsRequest DescribeGroupsResponse
        DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse
        DescribeUserScramCredentialsResult DescribedGroup DescribedGroupMember EpochEndOffset
        FetchPartition FetchRequest FetchResponse FetchTopic FetchableTopicResponse
        FinalizedFeatureKey FindCoordinatorRequest FindCoordinatorResponse ForgottenTopic
        HeartbeatRequest HeartbeatResponse JoinGroupRequest JoinGroupRequestProtocol
        JoinGroupResponse JoinGroupResponseMember LeaderIdAndEpoch LeaveGroupRequest
        LeaveGroupResponse ListGroupsRequest ListGroupsResponse ListOffsetsPartition
        ListOffsetsPartitionResponse ListOffsetsRequest ListOffsetsResponse ListOffsetsTopic
        ListOffsetsTopicResponse ListedGroup MemberIdentity MemberResponse MetadataRequest
        MetadataRequestTopic MetadataResponse MetadataResponseBroker MetadataResponsePartition
        MetadataResponseTopic NodeEndpoint OffsetCommitRequest OffsetCommitRequestPartition
        OffsetCommitRequestTopic OffsetCommitResponse OffsetCommitResponsePartition
        OffsetCommitResponseTopic OffsetDeleteRequest OffsetDeleteRequestPartition
        OffsetDeleteRequestTopic OffsetDeleteResponse OffsetDeleteResponsePartition
        OffsetDeleteResponseTopic OffsetFetchRequest OffsetFetchRequestGroup
        OffsetFetchRequestTopic OffsetFetchRequestTopics OffsetFetchResponse
        OffsetFetchResponseGroup OffsetFetchResponsePartition OffsetFetchResponsePartitions
        OffsetFetchResponseTopic OffsetFetchResponseTopics PartitionData PartitionProduceData
        PartitionProduceResponse ProduceRequest ProduceResponse QuotaEntity QuotaEntry
        QuotaFilter QuotaValue ReplicaState
        SaslAuthenticateRequest SaslAuthenticateResponse SaslHandshakeRequest
        SaslHandshakeResponse ScramCredentialDeletion ScramCredentialUpsertion SnapshotId
        SupportedFeatureKey SyncGroupRequest SyncGroupRequestAssignment SyncGroupResponse
        TopicProduceData TopicProduceResponse UserName
    """,
    "coterie_protocol.operations": """
        DRAIN FREEZE KEEP_FROM Operation OperationTopic PIN partitions_of topics_of
    """,
    "coterie_protocol.partitioner": """
        murmur2 partition_of_key
    """,
    "coterie_protocol.schema": """
        Array BOOL BYTES Declaration FLOAT64 FieldSpec INT16 INT32 INT64 INT8 Kind NIL_UUID
        OWN_TAGS_FROM Primitive RECORDS STRING UUID VersionRange WireType declaration_of
        declarations field replaced request response struct
    """,
    "coterie_protocol.shards": """
        shard_of
    """,
    "coterie_protocol.strangers": """
        HEAD_BYTES Speech spoken_in
    """,
    "coterie_protocol.streams": """
        AssignmentInfo EARLIEST_PROBEABLE_VERSION GroupVersions HostInfo LATEST_OFFSET
        LATEST_VERSION NAMED_TOPOLOGY_VERSION NO_REBALANCE Partitions SubscriptionInfo TaskId
        TopicTasks UNKNOWN_OFFSET_SUM UNKNOWN_VERSION UnknownVersionError decode_assignment_info
        decode_subscription_info encode_assignment_info encode_subscription_info join_user_data
        next_version split_user_data
    """,
    "coterie_protocol.version": """
        VERSION
    """,
}

#: Their names are many and follow from something else, as the tests below say, or, the journal's,
#: from its own versioned schema.
NOT_LISTED = {
    "coterie_protocol.errors",
    "coterie_protocol.journal",
    "coterie_protocol.journal_text",
    "coterie_protocol.replay",
}


@pytest.mark.parametrize("module", list(PUBLIC))
def test_public_names_are_these(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == PUBLIC[module].split()
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_public_modules_are_these() -> None:
    """Modules without an underscore in their name are public."""
    found = {
        f"coterie_protocol.{each.name}" for each in pkgutil.iter_modules(coterie_protocol.__path__)
    }
    public = {name for name in found if not name.startswith("coterie_protocol._")}
    assert public - NOT_LISTED == PUBLIC.keys() - {"coterie_protocol"}


def test_errors_are_the_classes_of_all_codes() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", None) == errors.__name__ and not name.startswith("_")
    }
    classes = {errors.class_for(code).__name__ for code in ErrorCode if code}
    abstract = {
        "KafkaError",
        "RetriableKafkaError",
        "RefreshRetriableError",
        "InvalidMetadataError",
    }
    assert found == classes | abstract | {"class_for", "error_for", "raise_for"}


def test_messages_are_exported_from_one_place() -> None:
    declared = {each.cls.__name__ for each in declarations() if ".messages." in each.cls.__module__}
    assert declared == set(messages.__all__)


def test_names_at_the_top_are_those_of_the_modules() -> None:
    for module in ("api_keys", "codec", "exceptions", "framing"):
        found = importlib.import_module(f"coterie_protocol.{module}")
        for name in found.__all__:
            assert getattr(coterie_protocol, name) is getattr(found, name)
