"""The client's errors: how they can be caught, what they say, and that the list is complete."""

from __future__ import annotations

import pickle
import re

import pytest

from coterie_client import errors
from coterie_client.errors import (
    AnswerTimedOutError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    CoterieClientError,
    ServerNotProvenError,
    TlsFailedError,
    UnexpectedAnswerError,
    UnknownHostError,
    VersionNotSpokenError,
    WrongServerError,
)
from coterie_protocol.errors import (
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
from coterie_protocol.exceptions import CoterieError

ALL = [
    AnswerTimedOutError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    ServerNotProvenError,
    TlsFailedError,
    UnexpectedAnswerError,
    UnknownHostError,
    VersionNotSpokenError,
    WrongServerError,
]


@pytest.mark.parametrize("error", ALL)
def test_error_says_its_sentence(error: type[CoterieClientError]) -> None:
    """Also after a journey to another process."""
    made = error("What happened; what to do.")
    again = pickle.loads(pickle.dumps(made))  # noqa: S301  # what was just written
    for each in (made, again):
        assert type(each) is error
        assert str(each) == "What happened; what to do."
        assert isinstance(each, CoterieClientError)
        assert isinstance(each, CoterieError)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (AnswerTimedOutError, RequestTimedOutError),
        (ConnectionFailedError, NetworkError),
        (ConnectionLostError, NetworkError),
        (ServerNotProvenError, SaslAuthenticationFailedError),
        (VersionNotSpokenError, UnsupportedVersionError),
        (ConfigurationError, ValueError),
    ],
)
def test_error_can_be_caught_as_what_it_is(
    error: type[CoterieClientError], base: type[Exception]
) -> None:
    made = error("sentence")
    assert isinstance(made, base)
    if isinstance(made, KafkaError):
        assert issubclass(base, KafkaError)
        assert made.code is base.code


def test_which_errors_may_pass() -> None:
    retriable = {error.__name__ for error in ALL if error.retriable}
    assert retriable == {
        "AnswerTimedOutError",
        "ConnectionFailedError",
        "ConnectionLostError",
        "UnknownHostError",
        "WrongServerError",
    }


def test_tree_in_the_docstring_is_complete() -> None:
    tree = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert sorted(tree) == sorted(errors.__all__)
