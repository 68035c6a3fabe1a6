"""The size check measures what it says it measures."""

from pathlib import Path

import pytest

from tools.check_sizes import (
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    FUNCTION_LINES_P90_MAX,
    complaints,
    functions_in,
    percentile,
)


def function_of(lines: int, docstring: str = "") -> str:
    """Return the source of a function with that many lines, docstring not counted."""
    body = ["    pass"] * (lines - 1)
    documented = [f'    """{docstring}"""'] if docstring else []
    return "\n".join(["def f():", *documented, *body, ""])


def write_module(root: Path, source: str, folder: str = "server") -> None:
    """Write a module into a part of an otherwise empty project."""
    (root / folder).mkdir()
    (root / folder / "module.py").write_text(source, encoding="utf-8")


def test_docstring_does_not_count() -> None:
    source = function_of(3, docstring="First.\n\n    Second.\n    ")
    assert [each.length_lines for each in functions_in(source)] == [3]


def test_methods_and_nested_functions_are_measured() -> None:
    source = "class C:\n    async def a(self):\n        def b():\n            pass\n"
    assert [(each.name, each.length_lines) for each in functions_in(source)] == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("folder", ["server", "tests"])
def test_function_over_the_limit_is_reported_with_file_line_name_and_length(
    tmp_path: Path, folder: str
) -> None:
    short = function_of(2) * 20  # keeps the share of long functions out of this
    write_module(tmp_path, short + function_of(FUNCTION_LINES_MAX + 1), folder)
    assert list(complaints(tmp_path)) == [
        f"{folder}/module.py:41: f has {FUNCTION_LINES_MAX + 1} lines; the limit is 60"
    ]


def test_function_at_the_limit_passes(tmp_path: Path) -> None:
    write_module(tmp_path, function_of(2) * 20 + function_of(FUNCTION_LINES_MAX))
    assert list(complaints(tmp_path)) == []


def test_product_file_over_the_limit_is_reported(tmp_path: Path) -> None:
    write_module(tmp_path, "x = 1\n" * (FILE_LINES_MAX + 1))
    assert list(complaints(tmp_path)) == [
        f"server/module.py: the file has {FILE_LINES_MAX + 1} lines; the limit is 400"
    ]


def test_long_test_file_passes(tmp_path: Path) -> None:
    """A table of cases may be long."""
    write_module(tmp_path, "x = 1\n" * (FILE_LINES_MAX + 1), "tests")
    assert list(complaints(tmp_path)) == []


def test_many_functions_near_the_limit_are_reported(tmp_path: Path) -> None:
    write_module(tmp_path, function_of(2) * 4 + function_of(FUNCTION_LINES_P90_MAX + 1))
    assert len(list(complaints(tmp_path))) == 1


@pytest.mark.parametrize(("values", "expected"), [([], 0), ([7], 7), (list(range(1, 11)), 9)])
def test_percentile_is_the_nearest_rank(values: list[int], expected: int) -> None:
    assert percentile(values, 0.9) == expected
