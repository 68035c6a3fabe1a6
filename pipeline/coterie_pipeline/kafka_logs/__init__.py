"""Kafka's own groups: from the logs of its brokers to a journal, without Spark and without Java."""

from coterie_pipeline.kafka_logs.dump import DumpCounts
from coterie_pipeline.kafka_logs.importing import Imported, import_logs
from coterie_pipeline.kafka_logs.log_files import KafkaLogsError

__all__ = ["DumpCounts", "Imported", "KafkaLogsError", "import_logs"]
