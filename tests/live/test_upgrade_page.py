"""What the page about cooperative groups says of stock clients is so."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConfigurationError

from tests.ground.documented import ROOT
from tests.live.daemon import Daemon

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "how-to" / "upgrade-to-cooperative.md"


def test_page_says_that_neither_of_two_clients_can_list_both_kinds_of_assignors() -> None:
    about = PAGE.read_text(encoding="utf-8").split("\n## With stock clients\n")[1]
    assert about.startswith(
        "\n- kafka-python since version 3 and librdkafka (confluent-kafka) have"
    )
    assert "\n- With either of the two, one client can't list an eager and a coop" in about


def test_client_on_librdkafka_can_not_list_eager_and_cooperative_assignors(daemon: Daemon) -> None:
    with pytest.raises(KafkaException, match="must have the same protocol type"):
        Consumer(
            {
                "bootstrap.servers": daemon.address,
                "group.id": "upgrade",
                "partition.assignment.strategy": "cooperative-sticky,range",
            }
        )


def test_kafka_python_can_not_list_eager_and_cooperative_assignors(daemon: Daemon) -> None:
    with pytest.raises(KafkaConfigurationError, match="EAGER and COOPERATIVE"):
        KafkaConsumer(
            bootstrap_servers=daemon.address,
            group_id="upgrade",
            partition_assignment_strategy=(CooperativeStickyAssignor, RangePartitionAssignor),
        )
