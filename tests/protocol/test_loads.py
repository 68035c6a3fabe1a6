"""The loads behind user data: they come back as they were, and bytes of any kind do no harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.loads import (
    LOAD_MAX,
    Load,
    LoadReport,
    join_load_report,
    split_load_report,
)

KEYS = st.tuples(st.text(max_size=3), st.integers(0, 2**31 - 1))
VALUES = st.one_of(st.none(), st.floats(0, LOAD_MAX))
LOADS = st.dictionaries(KEYS, st.builds(Load, VALUES, st.integers(0, 2**31 - 1)), max_size=5)
REPORTS = st.builds(LoadReport, LOADS, LOADS)

ONE = LoadReport({("t", 3): Load(2.5, 1000)}, {("u", 0): Load(None, 7)})


@given(own=st.binary(max_size=9), report=REPORTS)
def test_what_is_joined_comes_apart_again(own: bytes, report: LoadReport) -> None:
    assert split_load_report(join_load_report(own, report)) == (own, report)


def test_own_user_data_comes_first() -> None:
    assert join_load_report(b"own", ONE).startswith(b"own")


def test_bytes_on_the_wire() -> None:
    block = (
        b"\x00\x00"  # the version
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01"  # one topic, one partition that is owned
        b"\x00\x00\x00\x03" + struct.pack(">d", 2.5) + b"\x00\x00\x03\xe8"
        b"\x00\x00\x00\x01\x00\x01u\x00\x00\x00\x01"  # and one that was left
        b"\x00\x00\x00\x00" + struct.pack(">d", -1.0) + b"\x00\x00\x00\x07"
    )
    assert join_load_report(b"", ONE) == block + struct.pack(">I", len(block)) + b"lOAD"


@pytest.mark.parametrize("data", [None, b"", b"own", b"\x00\x00\x00\x01", b"\xff" * 40])
def test_user_data_without_report_is_all_the_assignors(data: bytes | None) -> None:
    assert split_load_report(data) == (data, None)


def test_length_beyond_the_beginning_is_no_report() -> None:
    data = b"own" + struct.pack(">I", 4) + b"lOAD"
    assert split_load_report(data) == (data, None)


@given(data=st.binary(max_size=60))
def test_any_block_is_read_or_left_out(data: bytes) -> None:
    own, report = split_load_report(b"own" + data + struct.pack(">I", len(data)) + b"lOAD")
    assert own == b"own"
    for load in () if report is None else [*report.owned.values(), *report.left.values()]:
        assert load.age_ms >= 0
        assert load.value is None or 0 <= load.value <= LOAD_MAX


@pytest.mark.parametrize("load", [float("nan"), float("inf"), -1e-9, LOAD_MAX * 2])
def test_absurd_loads_are_unknown(load: float) -> None:
    written = join_load_report(b"", LoadReport({("t", 0): Load(load, 5)}))
    assert split_load_report(written)[1] == LoadReport({("t", 0): Load(None, 5)})


def test_report_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    data = bytearray(join_load_report(b"", ONE))[:-8]
    data[:2] = b"\x00\x07"
    data += b"more"
    assert split_load_report(bytes(data) + struct.pack(">I", len(data)) + b"lOAD")[1] == ONE


def test_ages_that_are_too_long_are_cut() -> None:
    written = join_load_report(b"", LoadReport({("t", 0): Load(1.0, 2**40)}))
    assert split_load_report(written)[1] == LoadReport({("t", 0): Load(1.0, 2**31 - 1)})
