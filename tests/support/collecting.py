"""The order in which a process of a run collects the tests."""

from __future__ import annotations

import os

import pytest

__all__ = ["begin_elsewhere"]


def begin_elsewhere(config: pytest.Config) -> None:
    """Have each process of a run collect all tests, but begin with other folders.

    To compile them, with what explains their assertions, takes longer than all else that is done
    before the first test.  In the same order, each process would do that for itself; this way each
    one finds bytecode of what the others had first.
    """
    if not hasattr(config, "workerinput") or config.args_source != config.ArgsSource.TESTPATHS:
        return
    tests = config.rootpath / "tests"
    files = sorted(tests.glob("*/**/test_*.py"))
    folders = [str(tests / file.relative_to(tests).parts[0]) for file in files]
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    first = len(folders) * number // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    config.args = [*dict.fromkeys((*folders[first:], *folders[:first]))]
