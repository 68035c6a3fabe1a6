"""Error codes and their exception classes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie_protocol import errors
from coterie_protocol.error_codes import ErrorCode

with warnings.catch_warnings():
    # kafka-python 3.0 loads its schemas by a function that Python 3.11 and 3.12 deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.errors as kafka_python  # type: ignore[import-untyped, unused-ignore]

NEWEST_CODE = 133  # SHARE_SESSION_LIMIT_REACHED; as of Kafka 4.3
CODES_WITH_CLASS = [code for code in ErrorCode if code is not ErrorCode.NONE]
ABSTRACT_CLASSES: list[type[errors.KafkaError]] = [
    errors.KafkaError,
    errors.RetriableKafkaError,
    errors.RefreshRetriableError,
    errors.InvalidMetadataError,
]

unnamed_number = pytest.mark.parametrize("number", [-2, NEWEST_CODE + 1, 32767, -32768])


# Helpers


def descendants(cls: type[errors.KafkaError]) -> Iterator[type[errors.KafkaError]]:
    """All classes below `cls`, registered or not."""
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def declared_classes() -> list[type[errors.KafkaError]]:
    """The classes that were declared with a code."""
    return [cls for cls in descendants(errors.KafkaError) if "code" in vars(cls)]


def class_name_for(code_name: str) -> str:
    """The name that a code's class must have."""
    stem = code_name.removesuffix("_ERROR").removesuffix("_EXCEPTION")
    return "".join(word.capitalize() for word in stem.split("_")) + "Error"


def run_python(*arguments: str) -> str:
    """Run a new interpreter and return its output."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


# Codes


def test_codes_are_gapless() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, NEWEST_CODE + 1))
    assert len(ErrorCode.__members__) == NEWEST_CODE + 2


def test_of_finds_every_code_by_number() -> None:
    assert [ErrorCode.of(int(code)) for code in ErrorCode] == list(ErrorCode)


@unnamed_number
def test_of_reads_unnamed_numbers_as_unknown_server_error(number: int) -> None:
    """A newer peer sends codes that are not known here."""
    assert ErrorCode.of(number) is ErrorCode.UNKNOWN_SERVER_ERROR


# One class per code


def test_each_code_has_exactly_one_class() -> None:
    assert sorted(cls.code for cls in declared_classes()) == CODES_WITH_CLASS


def test_class_is_found_by_code_and_by_name() -> None:
    for code in CODES_WITH_CLASS:
        cls = errors.class_for(code)
        assert cls.code is code
        assert cls.name == code.name
        assert cls.__name__ == class_name_for(code.name)
        assert getattr(errors, cls.__name__) is cls


def test_none_has_no_class() -> None:
    with pytest.raises(ValueError, match="NONE means success"):
        errors.class_for(ErrorCode.NONE)


def test_messages_are_single_sentences_of_their_own() -> None:
    messages = [cls.default_message for cls in declared_classes()]
    assert [message for message in messages if "\n" in message or message[-1:] != "."] == []
    assert len(set(messages)) == len(messages)


# Registration


def test_second_class_for_a_code_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^AgainError .* UNKNOWN_MEMBER_ID: UnknownMemberIdError"):

        class AgainError(errors.KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID):
            """Refused."""

    assert errors.class_for(ErrorCode.UNKNOWN_MEMBER_ID) is errors.UnknownMemberIdError


def test_class_for_none_is_refused() -> None:
    with pytest.raises(TypeError, match="NoError cannot stand for NONE"):

        class NoError(errors.KafkaError, code=ErrorCode.NONE):
            """Refused."""


def test_subclass_without_code_shares_its_parents() -> None:
    class LateMemberError(errors.UnknownMemberIdError):
        """Narrower than its parent."""

    assert LateMemberError().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert str(LateMemberError()) == str(errors.UnknownMemberIdError())
    assert errors.class_for(ErrorCode.UNKNOWN_MEMBER_ID) is errors.UnknownMemberIdError


@pytest.mark.parametrize("cls", ABSTRACT_CLASSES, ids=lambda cls: cls.__name__)
def test_class_without_code_cannot_be_instantiated(cls: type[errors.KafkaError]) -> None:
    """It would have no code to send or to act upon."""
    with pytest.raises(TypeError, match=f"{cls.__name__} has no error code"):
        cls("detail")


# Retrying


def test_code_is_retriable_when_its_class_is() -> None:
    for code in CODES_WITH_CLASS:
        cls = errors.class_for(code)
        assert code.retriable == cls.retriable == issubclass(cls, errors.RetriableKafkaError)


def test_none_is_not_retriable() -> None:
    assert not ErrorCode.NONE.retriable


def test_retriable_needs_no_other_import() -> None:
    """Even without importing the exceptions."""
    script = (
        "from coterie_protocol.error_codes import ErrorCode;"
        "print(ErrorCode.NOT_COORDINATOR.retriable, ErrorCode.UNKNOWN_MEMBER_ID.retriable)"
    )
    assert run_python("-c", script) == "True False"


def test_codes_that_send_the_client_back_to_find_its_coordinator() -> None:
    below_metadata = set(descendants(errors.InvalidMetadataError))
    refreshing = {
        cls for cls in descendants(errors.RefreshRetriableError) if "code" in vars(cls)
    } - below_metadata
    assert refreshing == {errors.CoordinatorNotAvailableError, errors.NotCoordinatorError}


def test_codes_younger_than_the_oracle() -> None:
    """kafka-python 3.0 does not know these codes yet."""
    young = [code for code in ErrorCode if code > ErrorCode.VOTER_NOT_FOUND]
    assert [code for code in young if code.retriable] == [ErrorCode.SHARE_SESSION_LIMIT_REACHED]


# Agreement with kafka-python, which wrote its list independently

# Kafka has renamed 6 since. The others are kafka-python's own names for Kafka's codes.
NAMES_THAT_DIFFER = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
# Kafka's class for 2, CorruptRecordException, is a RetriableException: a second fetch may read
# the records whole. kafka-python gives up at once.
RETRIABLE_THAT_DIFFER = {2}
# Kafka's UnknownLeaderEpochException is retriable but no InvalidMetadataException: it is the
# broker that lags behind, not the client. kafka-python refreshes its metadata.
METADATA_THAT_DIFFER = {75}


def oracle() -> dict[ErrorCode, Any]:
    """kafka-python's class for each code that both have an error for."""
    classes = [
        cls
        for cls in vars(kafka_python).values()
        if isinstance(cls, type) and vars(cls).get("errno") is not None
    ]
    by_number = {cls.errno: cls for cls in classes}  # type: ignore[attr-defined, unused-ignore]
    return {code: by_number[code] for code in CODES_WITH_CLASS if code in by_number}


def test_oracle_covers_the_codes_of_kafka_3() -> None:
    """So the comparisons below look at every code up to VOTER_NOT_FOUND."""
    assert [code for code in CODES_WITH_CLASS if code not in oracle() and code < 128] == []


def test_names_agree_with_kafka_python() -> None:
    differing = {c.value: cls.message for c, cls in oracle().items() if cls.message != c.name}
    assert differing == NAMES_THAT_DIFFER


def test_retriable_agrees_with_kafka_python() -> None:
    differing = {code.value for code, cls in oracle().items() if cls.retriable != code.retriable}
    assert differing == RETRIABLE_THAT_DIFFER


def test_invalid_metadata_agrees_with_kafka_python() -> None:
    differing = {
        code.value
        for code, cls in oracle().items()
        if cls.invalid_metadata != issubclass(errors.class_for(code), errors.InvalidMetadataError)
    }
    assert differing == METADATA_THAT_DIFFER


# Text


def test_str_tells_name_number_and_message() -> None:
    assert str(errors.GroupIdNotFoundError()) == (
        "GROUP_ID_NOT_FOUND (69): There is no group with this id."
    )


def test_str_appends_the_detail() -> None:
    assert str(errors.GroupIdNotFoundError("group g")) == (
        "GROUP_ID_NOT_FOUND (69): There is no group with this id: group g"
    )


def test_str_with_an_empty_detail_reads_as_without_one() -> None:
    """Kafka's optional messages may be empty, which must not leave a dangling colon."""
    assert str(errors.GroupIdNotFoundError("")) == str(errors.GroupIdNotFoundError())


@pytest.mark.parametrize("text", ["UnknownMemberIdError()", "UnknownMemberIdError('member m')"])
def test_repr_shows_how_to_make_the_error_again(text: str) -> None:
    detail = "member m" if "member m" in text else None
    assert repr(errors.UnknownMemberIdError(detail)) == text


def test_text_without_docstrings_falls_back_to_the_name() -> None:
    """`python -OO` strips docstrings."""
    script = "from coterie_protocol import errors; print(errors.NotCoordinatorError())"
    assert run_python("-OO", "-c", script) == "NOT_COORDINATOR (16): NOT_COORDINATOR"


# Copies


def pickled(error: errors.KafkaError) -> errors.KafkaError:
    """Send an error through pickle."""
    restored: errors.KafkaError = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    return restored


ways_to_duplicate = pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])


@ways_to_duplicate
def test_duplicate_says_what_its_original_says(
    duplicate: Callable[[errors.KafkaError], errors.KafkaError],
) -> None:
    for code in CODES_WITH_CLASS:
        original = errors.class_for(code)("group g, member m")
        restored = duplicate(original)
        assert restored is not original
        assert type(restored) is type(original)
        assert restored.detail == "group g, member m"
        assert str(restored) == str(original)


@ways_to_duplicate
@pytest.mark.parametrize("detail", [None, ""])
def test_duplicate_keeps_the_lack_of_detail(
    detail: str | None, duplicate: Callable[[errors.KafkaError], errors.KafkaError]
) -> None:
    assert duplicate(errors.GroupIdNotFoundError(detail)).detail == detail


# From number to exception


def test_error_for_gives_the_codes_class() -> None:
    for code in CODES_WITH_CLASS:
        error = errors.error_for(code.value, "group g")
        assert type(error) is errors.class_for(code)
        assert error.detail == "group g"


@unnamed_number
def test_error_for_unnamed_number_tells_it(number: int) -> None:
    error = errors.error_for(number)
    assert type(error) is errors.UnknownServerError
    assert str(error).endswith(f": unknown error code {number}")


def test_error_for_unnamed_number_keeps_the_detail() -> None:
    assert errors.error_for(9999, "group g").detail == "unknown error code 9999, group g"


def test_error_for_none_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="NONE means success"):
        errors.error_for(0)


def test_raise_for_returns_on_none() -> None:
    errors.raise_for(0, "group g")


def test_raise_for_raises_the_codes_class() -> None:
    with pytest.raises(errors.RebalanceInProgressError) as caught:
        errors.raise_for(27, "group g")
    assert caught.value.detail == "group g"


def test_raise_for_raises_on_unnamed_numbers() -> None:
    with pytest.raises(errors.UnknownServerError, match="unknown error code 9999"):
        errors.raise_for(9999)
