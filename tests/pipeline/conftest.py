"""Fixtures of the tests of the pipeline."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.oracle.tables import oracle_tables
from tests.pipeline.stories import advice, advice_members, lines, ownership
from tests.pipeline.stories.runs import simulated_lines
from tests.pipeline.stories.telling import write_stories
from tests.support.embedded_spark import spark
from tests.support.journals import write_journal
from tests.support.pipeline_tables import Told, spark_tables

__all__ = ["makers", "spark", "told"]

_CHAPTERS = (lines.story, ownership.story, advice.story, advice_members.story)


@pytest.fixture(scope="session")
def makers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The tables of all stories and simulated runs, of Spark and of the oracle.

    Spark gets the last file first.
    """
    folder = tmp_path_factory.mktemp("stories")
    paths = [*write_stories(_CHAPTERS, folder), *write_journal(simulated_lines(), folder)]
    return {
        "spark": Told(spark_tables(spark, sorted(paths, reverse=True))),
        "oracle": Told(oracle_tables(folder)),
    }


@pytest.fixture(params=["spark", "oracle"])
def told(request: pytest.FixtureRequest, makers: dict[str, Told]) -> Told:
    """The tables, of one of both."""
    return makers[request.param]
