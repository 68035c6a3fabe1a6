"""Cases that share a test are all tried, and a failure names its own."""

import inspect

import pytest

from tests.support.cases import for_each


def test_all_values_are_tried_with_each_other() -> None:
    tried = []

    @for_each("letter", "ab")
    @for_each("number", (1, 2))
    def both(letter: str, number: int) -> None:
        tried.append((letter, number))

    both()
    assert tried == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_failure_names_its_values() -> None:
    @for_each("number", range(5))
    def is_small(number: int) -> None:
        assert number < 3

    with pytest.raises(AssertionError) as caught:
        is_small()
    assert caught.value.__notes__ == ["The case: number=3."]


def test_other_parameters_are_left_to_pytest() -> None:
    @for_each("number", range(5))
    def test(tmp_path: object, number: int) -> None:
        """Nothing."""

    assert list(inspect.signature(test).parameters) == ["tmp_path"]
