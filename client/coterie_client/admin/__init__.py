"""Looking after topics, groups, members and offsets, of Coterie or of a Kafka cluster."""

from coterie_client.admin.caller import Timing
from coterie_client.admin.client import Admin
from coterie_client.admin.groups import Groups
from coterie_client.admin.members import Members
from coterie_client.admin.models import (
    CommittedOffset,
    CreatedTopic,
    FoundOffset,
    GroupDescription,
    GroupListing,
    MemberDescription,
    MemberRef,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from coterie_client.admin.offsets import Offsets
from coterie_client.admin.results import Result, Results
from coterie_client.admin.topics import Topics

__all__ = [
    "Admin",
    "CommittedOffset",
    "CreatedTopic",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "Groups",
    "MemberDescription",
    "MemberRef",
    "Members",
    "NewTopic",
    "Offsets",
    "PartitionDescription",
    "Result",
    "Results",
    "Timing",
    "TopicDescription",
    "TopicListing",
    "Topics",
]
