"""The Kafka test broker itself: it serves stock clients and Kafka's tools, and survives a kill."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition

from tests.interop.kafka_broker import (
    CONSUMER_GROUPS,
    BrokerStartError,
    JavaProgramError,
    KafkaBroker,
    java_classpath,
    kafka_tool,
    run_java_source,
)
from tests.support.kafka_python import poll_on

pytestmark = pytest.mark.interop

_JOIN_TIMEOUT_S = 20.0

_ECHO_PROGRAM = """
import java.util.Scanner;
import org.apache.kafka.common.utils.AppInfoParser;

public class Echo {
    public static void main(String[] args) {
        String line = new Scanner(System.in).nextLine();
        System.out.println(args[0] + " " + line + " " + AppInfoParser.getVersion());
    }
}
"""


def _create_topic(broker: KafkaBroker, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_topics({topic: {"num_partitions": 2}}, wait_for_metadata=True)
    finally:
        admin.close()


def _joined_consumer(broker: KafkaBroker, group: str, topic: str) -> Any:
    """Return a consumer of ``group`` that was given partitions of ``topic``."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
    )
    try:
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        while not consumer.assignment():
            assert time.monotonic() < deadline, f"{group} got nothing in {_JOIN_TIMEOUT_S:g} s"
            poll_on(consumer, 100)
    except BaseException:
        consumer.close()
        raise
    return consumer


def _commit_once(broker: KafkaBroker, group: str, topic: str) -> None:
    """Join ``group`` alone, commit offset 7 of partition 0, and leave."""
    consumer = _joined_consumer(broker, group, topic)
    try:
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(7, "note", -1)})
    finally:
        consumer.close()


def _groups(broker: KafkaBroker) -> list[str]:
    listed = kafka_tool(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, "--list")
    return listed.stdout.split()


def test_lone_consumer_gets_every_partition(kafka_broker: KafkaBroker) -> None:
    _create_topic(kafka_broker, "lone-topic")
    consumer = _joined_consumer(kafka_broker, "lone-group", "lone-topic")
    try:
        assert consumer.assignment() == {TopicPartition("lone-topic", p) for p in (0, 1)}
    finally:
        consumer.close()


def test_consumer_group_command_lists_a_committed_group(kafka_broker: KafkaBroker) -> None:
    _create_topic(kafka_broker, "listed-topic")
    assert "listed-group" not in _groups(kafka_broker)
    _commit_once(kafka_broker, "listed-group", "listed-topic")
    assert "listed-group" in _groups(kafka_broker)


@pytest.mark.usefixtures("kafka_toolchain")
def test_group_and_commit_survive_a_kill(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker") as broker:
        _create_topic(broker, "kept-topic")
        _commit_once(broker, "kept-group", "kept-topic")
        address = broker.bootstrap
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap == address
        assert _groups(broker) == ["kept-group"]
        consumer = _joined_consumer(broker, "kept-group", "kept-topic")
        try:
            assert consumer.committed(TopicPartition("kept-topic", 0)) == 7
        finally:
            consumer.close()


def test_tool_failure_carries_its_output(kafka_broker: KafkaBroker) -> None:
    with pytest.raises(JavaProgramError, match="no-such-option"):
        kafka_tool(
            CONSUMER_GROUPS, "--bootstrap-server", kafka_broker.bootstrap, "--no-such-option"
        )


@pytest.mark.usefixtures("kafka_toolchain")
def test_new_broker_takes_over_data_and_port(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker") as first:
        _create_topic(first, "inherited-topic")
    with KafkaBroker(tmp_path / "broker", {"num.partitions": 3}, port=first.port) as second:
        admin = KafkaAdminClient(bootstrap_servers=first.bootstrap)
        try:
            assert second.running
            assert admin.list_topics() == ["inherited-topic"]
        finally:
            admin.close()


@pytest.mark.usefixtures("kafka_toolchain")
def test_taken_port_is_reported_with_the_cause(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = KafkaBroker(tmp_path / "broker", port=taken.getsockname()[1])
        with pytest.raises(BrokerStartError, match="Address already in use"):
            broker.start()
    assert not broker.running


@pytest.mark.usefixtures("java_compiler")
def test_java_source_runs_with_the_kafka_client(tmp_path: Path) -> None:
    source = tmp_path / "Echo.java"
    source.write_text(_ECHO_PROGRAM, encoding="utf-8")
    result = run_java_source(source, "first", stdin="second\n")
    first, second, version = result.stdout.split()
    assert (first, second) == ("first", "second")
    assert f"kafka-clients-{version}.jar" in java_classpath()
