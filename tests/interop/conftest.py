"""Fixtures of the tests against real Kafka software. They skip where Java or Maven is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.kafka_broker import KafkaBroker, toolchain_problem
from tests.interop.kafka_history import KafkaHistory, live_and_import


def pytest_configure(config: pytest.Config) -> None:
    """Excuse what stock clients warn about while they are imported."""
    # kafka-python 3.0 reads its message schemas with functions that Python 3.11 deprecates.
    config.addinivalue_line(
        "filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning"
    )


@pytest.fixture(scope="session")
def kafka_toolchain() -> None:
    """Skip the test when a broker cannot be started here."""
    problem = toolchain_problem()
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture(scope="session")
def java_compiler(kafka_toolchain: None) -> None:  # noqa: ARG001 - asked for its skip
    """Skip the test when a Java program cannot be compiled here."""
    problem = toolchain_problem(compiler=True)
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture(scope="session")
def kafka_broker(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaBroker]:
    """Give a running broker that all tests of the session share.

    Tests keep apart by topic and group names, and leave it running; a test that kills its broker
    starts its own.
    """
    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def history(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    java_compiler: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> KafkaHistory:
    """What groups did on a real broker, as they saw it and as its logs tell it."""
    return live_and_import(tmp_path_factory.mktemp("logs"))
