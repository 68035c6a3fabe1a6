"""Every option of the client's is checked where it is given, and refused in one sentence."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from coterie_assignors import RangeAssignor, StickyAssignor, WarmSettings
from coterie_client import (
    Admin,
    Group,
    Release,
    Restart,
    Sasl,
    Security,
    Sources,
    Tls,
)
from coterie_client.admin import Timing
from coterie_client.errors import ConfigurationError
from coterie_client.wire import ConnectionLimits, Network, RetryOptions

HUGE: Final = 10**5000
NOT_SECONDS: Final = ("10", None, True, math.nan, math.inf, -math.inf, 0, -1, 1e10, HUGE, [3], 1j)
NOT_WHOLE: Final = ("10", None, True, math.nan, 0, -1, 2.0, 2**31, HUGE)
NOT_TEXT: Final = ("", 7, b"g", True, "\udc80", "x" * 32_768)
NOT_A_FLAG: Final = (0, 1, "yes", "")
NOT_PATHS: Final = ("", 7, b"ca.pem", True)


def group(**options: Any) -> object:
    """A member that is never entered."""
    return Group(**{"bootstrap": "127.0.0.1:1", "group": "g", "topics": ["t"]} | options)


def admin(**options: Any) -> object:
    """An administrator that never asks."""
    return Admin(**{"bootstrap": "127.0.0.1:1"} | options)


def network(**options: Any) -> object:
    """Connections that are never made."""
    return Network(**{"bootstrap": "127.0.0.1:1"} | options)


def sasl(**options: Any) -> object:
    """Credentials."""
    return Sasl(**{"mechanism": "PLAIN", "username": "u", "password": "p"} | options)


def bearer(**options: Any) -> object:
    """A token."""
    return Sasl(**{"mechanism": "OAUTHBEARER", "token": "t"} | options)


NOT_BOOTSTRAPS: Final[Sequence[object]] = (
    "",
    None,
    9092,
    [],
    [9092],
    "host",
    "host:0",
    b"host:1",
    True,
)
#: What makes something, and which values of which options it has to refuse.
REFUSED: Final[Mapping[Callable[..., object], Mapping[str, Sequence[object]]]] = {
    group: {
        "bootstrap": NOT_BOOTSTRAPS,
        "group": (*NOT_TEXT, None),
        "topics": ("t", None, 7, [], [""], [7], b"t", [None], True),
        "instance": NOT_TEXT,
        "rack": NOT_TEXT,
        "address": (*NOT_TEXT, "h:1\n", "h" * 513),
        "labels": (7, "zone", ["zone"], {"zone": 7}, {7: "x"}, {"": "x"}, {"zone": ""}),
        "assignors": ([], (), RangeAssignor, [RangeAssignor], ["range"], RangeAssignor(), "range"),
        "client_id": NOT_TEXT,
        "security": (None, "SSL", Tls(), True),
        "session_timeout": (*NOT_SECONDS, 1, 8.999),
        "registration_timeout": (*(each for each in NOT_SECONDS if each), 600),
        "heartbeat_interval": (*NOT_SECONDS, 15.001, 45),
        "rebalance_timeout": NOT_SECONDS,
        "request_timeout": NOT_SECONDS,
        "metadata_max_age": NOT_SECONDS,
        "leave_on_close": NOT_A_FLAG,
        "close_timeout": NOT_SECONDS,
        "stop_on_signals": (*NOT_A_FLAG, None),
        "allow_auto_create_topics": (*NOT_A_FLAG, None),
        "stop_when_silent": (*NOT_A_FLAG, None),
        "warm": (7, True, WarmSettings, {"num_standbys": 1}),
        "ready_interval": NOT_SECONDS,
        "tags": (7, True, "zone", ["zone"], {"zone": 7}, {"zone": ""}, {"": "a"}, {7: "a"}),
        "on_event": (7, "log"),
        "dial": (7, "tcp"),
        "sources": (7, Sources),
    },
    admin: {
        "bootstrap": NOT_BOOTSTRAPS,
        "security": (None, "SSL", Tls()),
        "client_id": NOT_TEXT,
        "timing": (7, 10.0, Timing),
        "limits": (7, ConnectionLimits),
        "dial": (7, "tcp"),
        "random": (7, None),
    },
    network: {"reconnect": (7, None)},
    Timing: {
        "timeout_ms": NOT_WHOLE,
        "request_timeout_ms": NOT_WHOLE,
        "retry": (None, 7, RetryOptions),
        "fail_fast": NOT_A_FLAG,
    },
    ConnectionLimits: {
        "connect_timeout_ms": NOT_WHOLE,
        "close_timeout_ms": NOT_WHOLE,
        "frame_max_bytes": NOT_WHOLE,
        "write_buffer_high_bytes": NOT_WHOLE,
    },
    RetryOptions: {
        "base_ms": (*NOT_WHOLE, 1_001),
        "max_ms": NOT_WHOLE,
        "jitter": ("0", None, True, math.nan, math.inf, -0.1, 1, 1j),
    },
    Restart: {"first": (*NOT_SECONDS, 61), "limit": NOT_SECONDS},
    Release: {"first": (*NOT_SECONDS, 61), "limit": NOT_SECONDS},
    sasl: {
        "mechanism": ("GSSAPI", "plain", None, 7, []),
        "username": (*NOT_TEXT, None, "a\0b"),
        "password": (None, 7, b"p", True, "a\0b", "\udc80"),
        "token": ("token", str),
        "extensions": ({"traceId": "1"},),
    },
    bearer: {
        "mechanism": ("", "Bearer"),
        "username": ("u",),
        "password": ("p",),
        "token": (None, "", 7, b"t", "two words", "line\n", "\udc80"),
        "extensions": (7, {7: "x"}, {"a": 7}, {"auth": "x"}, {"a=b": "x"}, {"a": "\1"}, {"a": ""}),
    },
    Security: {"tls": (True, "ca.pem", Sasl("PLAIN", "u", "p")), "sasl": (True, Tls())},
    Tls: {
        "context": (True, "ca.pem"),
        "cafile": NOT_PATHS,
        "certfile": NOT_PATHS,
        "keyfile": NOT_PATHS,
        "key_password": (7, b"p", True),
        "verify_hostname": (*NOT_A_FLAG, None),
        "cadata": (7, b"PEM", True),
        "certdata": (7, b"PEM", True),
    },
}
NAMED_BY_ANOTHER: Final = ("max_ms", "limit", "session_timeout", "keyfile", "key_password")
CASES: Final = [
    pytest.param(make, name, values, id=f"{make.__name__}-{name}")
    for make, options in REFUSED.items()
    for name, values in options.items()
]


def refusal(make: Callable[..., object], name: str, value: object) -> ConfigurationError | None:
    """How an option's value is refused, if it is."""
    try:
        make(**{name: value})
    except ConfigurationError as error:
        return error
    return None


@pytest.mark.parametrize(("make", "name", "values"), CASES)
def test_value_that_makes_no_sense(
    make: Callable[..., object], name: str, values: Sequence[object]
) -> None:
    for number, value in enumerate(values):
        error = refusal(make, name, value)
        assert error is not None, f"value {number} is taken"
        sentence = str(error)
        # Where two options do not fit together, either may be the one to name first.
        assert name in sentence or name in NAMED_BY_ANOTHER, sentence
        assert " must " in sentence
        assert len(sentence) < 200
        assert "\n" not in sentence
        assert isinstance(error, ValueError)
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__


@pytest.mark.parametrize(
    ("make", "signature"),
    [
        (group, Group),
        (admin, Admin),
        (Timing, Timing),
        (ConnectionLimits, ConnectionLimits),
        (RetryOptions, RetryOptions),
        (Restart, Restart),
        (Release, Release),
        (sasl, Sasl),
        (bearer, Sasl),
        (Security, Security),
        (Tls, Tls),
    ],
)
def test_no_option_is_left_out(make: Callable[..., object], signature: Callable[..., Any]) -> None:
    assert set(REFUSED[make]) == set(inspect.signature(signature).parameters)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"session_timeout": "10"},
            "session_timeout must be a positive number of seconds, got '10'",
        ),
        (
            {"session_timeout": 1},
            "heartbeat_interval must be at most a third of session_timeout, which is 1 s, got 3 s",
        ),
        (
            {"close_timeout": 1e10},
            "close_timeout must be at most 2147483 seconds, got 10000000000.0",
        ),
        (
            {"close_timeout": HUGE},
            "close_timeout must be at most 2147483 seconds, got a value of type int",
        ),
        (
            {"registration_timeout": 600},
            "registration_timeout must come with an instance: a dynamic member has no place",
        ),
        ({"client_id": ""}, "client_id must be a string that is not empty, got ''"),
        ({"topics": "t"}, "topics must be a collection of names, at least one: write topics=['t']"),
    ],
)
def test_sentence(options: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        group(**options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["password", "key_password"])
def test_secrets_are_not_in_the_sentence(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _ = Tls(key_password=b"hunter2") if name == "key_password" else sasl(password=b"hunter2")  # type: ignore[arg-type]
    assert str(caught.value) == f"{name} must be a string, got a value of type bytes"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Security(sasl=("PLAIN", "u", "hunter2")),  # type: ignore[arg-type]
        lambda: Security(tls={"key_password": "hunter2"}),  # type: ignore[arg-type]
        lambda: group(security={"password": "hunter2"}),
        lambda: admin(security="PLAIN:u:hunter2"),
        lambda: group(bootstrap="kafka://u:hunter2@host:9092"),
    ],
)
def test_neither_is_what_holds_them(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=" must be ") as caught:
        make()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["no\0path", "\udc80", "missing.pem"])
def test_tls_files_are_read_where_the_client_is_made(path: str) -> None:
    for make in (group, admin):
        with pytest.raises(ConfigurationError, match="TLS files"):
            make(security=Security(tls=Tls(cafile=path)))


@pytest.mark.parametrize(
    "options",
    [
        {"session_timeout": 9},
        {"session_timeout": 0.3, "heartbeat_interval": 0.1},
        {"assignors": (RangeAssignor(), StickyAssignor())},
        {"topics": ("a", "b")},
        {"topics": (name for name in "ab")},
        {"leave_on_close": None, "instance": "worker-1", "rack": "a"},
        {"close_timeout": 0.0001},
        {"registration_timeout": 0, "instance": "worker-1"},
        {"registration_timeout": 0.5, "instance": "worker-1"},
    ],
)
def test_values_that_make_sense(options: Mapping[str, Any]) -> None:
    group(**options)
