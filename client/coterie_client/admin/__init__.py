"""The administrator's client: topics, groups, members and offsets, of Coterie or Kafka.

- `client`: `Admin`, the entry point.
- `topics`, `groups` (with members), `offsets`: the operations; `offset_messages` builds requests
  about offsets and reads their answers.
- `caller`: sends requests to the right node, and retries until each item of a batch has a result.
- `models`: what goes in and comes out.  `arguments`: checks of arguments.
"""

from coterie_client.admin.caller import Timing
from coterie_client.admin.client import Admin
from coterie_client.admin.groups import Groups, Members
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
    Result,
    Results,
    TopicDescription,
    TopicListing,
)
from coterie_client.admin.offsets import Offsets
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
