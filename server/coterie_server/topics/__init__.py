"""The core of the catalogue, without I/O: the topics with their numbers of partitions, and rights.

`catalogue` takes a request and begins a `step`.  One module for each request has its rules:
`metadata`, `create_topics`, `create_partitions`, `delete_topics`, `list_offsets`, `fetch`,
`produce`, `acl_requests`, `user_requests`; `checks` says what keeps a topic from being made.
`topic_table` and `Rights`, in the room `security`, are what the catalogue
remembers, `records` what is stored of it, `ends` where partitions end that hold no records.
"""

from coterie_server.topics.catalogue import Catalogue, TopicRefusal
from coterie_server.topics.ends import PartitionEnds
from coterie_server.topics.fetch import outdated
from coterie_server.topics.produce import NO_RECORDS_HERE
from coterie_server.topics.records import Gone, Record, TopicRow, from_stored, to_stored
from coterie_server.topics.step import HangUp, Later, Nodes, TopicConfig, TopicIds

__all__ = [
    "NO_RECORDS_HERE",
    "Catalogue",
    "Gone",
    "HangUp",
    "Later",
    "Nodes",
    "PartitionEnds",
    "Record",
    "TopicConfig",
    "TopicIds",
    "TopicRefusal",
    "TopicRow",
    "from_stored",
    "outdated",
    "to_stored",
]
