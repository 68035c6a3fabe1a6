"""What a batch comes to."""

from __future__ import annotations

import pickle

import pytest

from coterie_client.admin import Result, Results
from coterie_client.admin.models import error_of
from coterie_client.errors import BatchFailedError
from coterie_protocol.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnknownServerError,
)


def test_result_without_error_gives_its_value() -> None:
    assert Result(7).ok
    assert Result(7).get() == 7


def test_result_with_error_raises_it() -> None:
    error = NonEmptyGroupError("g")
    assert not Result(error=error).ok
    with pytest.raises(NonEmptyGroupError) as caught:
        Result(error=error).get()
    assert caught.value is error


def test_batch_without_errors_gives_all_values() -> None:
    results = Results({"a": Result(1), "b": Result(2)})
    assert results.get_all() == {"a": 1, "b": 2}
    assert results.errors == {}
    assert Results[str, int]().get_all() == {}


def test_batch_of_one_raises_the_error_of_its_item() -> None:
    results: Results[str, int] = Results({"a": Result(error=NonEmptyGroupError("a"))})
    with pytest.raises(NonEmptyGroupError):
        results.get_all()


def test_batch_error_keeps_each_error_and_spells_out_the_first_few() -> None:
    errors = {name: GroupIdNotFoundError(f"group {name}") for name in "abcde"}
    results: Results[str, int] = Results({name: Result(error=e) for name, e in errors.items()})
    results["f"] = Result(1)
    with pytest.raises(
        BatchFailedError, match=r"^5 of 6 failed: a \(also b, c and 2 more\): .*group a$"
    ):
        results.get_all()
    assert results.errors == errors


def test_batch_error_names_partitions_as_people_do_and_says_each_error_once() -> None:
    errors = {
        ("t", 0): NonEmptyGroupError("group g"),
        ("t", 1): NonEmptyGroupError("group g"),
        ("u", 0): UnknownServerError(),
    }
    text = str(BatchFailedError(errors, 3))
    assert text.startswith("3 of 3 failed: t[0] (also t[1]): NON_EMPTY_GROUP (68): ")
    assert "; u[0]: UNKNOWN_SERVER_ERROR" in text
    assert text.count("NON_EMPTY_GROUP") == 1


def test_batch_error_survives_pickling() -> None:
    error = BatchFailedError({"a": GroupIdNotFoundError("a")}, 2)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # what was just written
    assert str(again) == str(error)
    assert list(again.errors) == ["a"]
    assert again.asked == 2


@pytest.mark.parametrize(
    ("code", "sentence", "text"),
    [
        (68, None, "group g"),
        (68, "says the server", "group g: says the server"),
        (68, "", "group g"),
    ],
)
def test_error_code_becomes_its_exception(code: int, sentence: str | None, text: str) -> None:
    error = error_of(code, "group g", sentence)
    assert isinstance(error, NonEmptyGroupError)
    assert error.detail == text


def test_code_zero_is_no_error() -> None:
    assert error_of(0, "group g") is None


def test_unknown_code_is_an_unknown_error() -> None:
    assert isinstance(error_of(9999, "group g"), UnknownServerError)
