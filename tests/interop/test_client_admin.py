"""The contract of the administrator's client, with a real Kafka broker."""

from __future__ import annotations

import pytest

from tests.client.admin.contract import AdminContract
from tests.interop.kafka_broker import KafkaBroker


@pytest.mark.interop
class TestKafka(AdminContract):
    """Kafka keeps to the contract."""

    @pytest.fixture
    def address(self, kafka_broker: KafkaBroker) -> str:
        """Give the address of the session's broker."""
        return kafka_broker.bootstrap
