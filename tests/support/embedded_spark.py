"""One Spark for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.session import spark_session

__all__ = ["TUNED", "spark"]

# Small, for little data: one task each where the defaults would start two hundred.
TUNED = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    # To compile a plan takes longer than to interpret it for a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An embedded Spark with two processors."""
    warehouse = tmp_path_factory.mktemp("spark")
    settings = {**TUNED, "spark.sql.warehouse.dir": str(warehouse)}
    session = spark_session("local[2]", settings, memory="1g")
    yield session
    session.stop()
