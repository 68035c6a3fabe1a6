"""Fixtures of the tests of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.oracle.tables import oracle_tables
from tests.pipeline.scenarios import advice, advice_members, lines, ownership
from tests.pipeline.scenarios.runs import simulated_lines
from tests.pipeline.scenarios.writing import write_scenarios
from tests.support.embedded_spark import spark
from tests.support.journals import write_journal
from tests.support.pipeline_tables import TableRows, spark_tables

__all__ = ["spark", "tables", "tables_of_oracle", "tables_of_spark", "written"]

_SCENARIOS = (lines.scenario, ownership.scenario, advice.scenario, advice_members.scenario)


class Written(NamedTuple):
    """Journals, and the folder that they are in."""

    folder: Path
    paths: list[Path]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The journals of all scenarios and simulated runs."""
    folder = tmp_path_factory.mktemp("scenarios")
    paths = [*write_scenarios(_SCENARIOS, folder), *write_journal(simulated_lines(), folder)]
    return Written(folder, paths)


@pytest.fixture(scope="session")
def tables_of_spark(spark: SparkSession, written: Written) -> TableRows:
    """What Spark makes of them; it gets the last file first."""
    return TableRows(spark_tables(spark, sorted(written.paths, reverse=True)))


@pytest.fixture(scope="session")
def tables_of_oracle(written: Written) -> TableRows:
    """What the oracle makes of them."""
    return TableRows(oracle_tables(written.folder))


@pytest.fixture(params=["oracle", pytest.param("spark", marks=pytest.mark.slow)])
def tables(request: pytest.FixtureRequest) -> TableRows:
    """The tables, of one of both."""
    rows: TableRows = request.getfixturevalue(f"tables_of_{request.param}")
    return rows
