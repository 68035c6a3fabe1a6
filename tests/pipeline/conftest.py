"""Fixtures of the tests of the pipeline."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.oracle.tables import oracle_tables
from tests.pipeline.scenarios import advice, advice_members, lines, ownership
from tests.pipeline.scenarios.runs import simulated_lines
from tests.pipeline.scenarios.writing import write_scenarios
from tests.support.embedded_spark import spark
from tests.support.journals import write_journal
from tests.support.pipeline_tables import TableRows, spark_tables

__all__ = ["makers", "spark", "tables"]

_SCENARIOS = (lines.scenario, ownership.scenario, advice.scenario, advice_members.scenario)


@pytest.fixture(scope="session")
def makers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableRows]:
    """The tables of all scenarios and simulated runs, of Spark and of the oracle.

    Spark gets the last file first.
    """
    folder = tmp_path_factory.mktemp("scenarios")
    paths = [*write_scenarios(_SCENARIOS, folder), *write_journal(simulated_lines(), folder)]
    return {
        "spark": TableRows(spark_tables(spark, sorted(paths, reverse=True))),
        "oracle": TableRows(oracle_tables(folder)),
    }


@pytest.fixture(params=["spark", "oracle"])
def tables(request: pytest.FixtureRequest, makers: dict[str, TableRows]) -> TableRows:
    """The tables, of one of both."""
    return makers[request.param]
