"""Fixtures of the tests of the pipeline."""

from tests.support.embedded_spark import spark

__all__ = ["spark"]
