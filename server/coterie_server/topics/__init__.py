"""The core of the catalogue, without I/O: the topics and their numbers of partitions."""

from coterie_server.topics.catalogue import Catalogue, TopicRefusal
from coterie_server.topics.ends import PartitionEnds
from coterie_server.topics.fetch import outdated
from coterie_server.topics.produce import NO_RECORDS_HERE
from coterie_server.topics.records import Gone, Record, TopicRow, from_stored, to_stored
from coterie_server.topics.turn import Answer, Change, TopicConfig, TopicIds

__all__ = [
    "NO_RECORDS_HERE",
    "Answer",
    "Catalogue",
    "Change",
    "Gone",
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
