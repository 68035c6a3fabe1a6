"""Ports that tests get for their servers."""

from __future__ import annotations

import socket

import pytest

from tests.support.alone import run_alone
from tests.support.ports import free_port, free_ports, take


def taken_again(port: int) -> list[bool]:
    """Whether this process gets a port, and the one that follows it."""
    return [take(each) for each in (port, port + 1)]


@pytest.mark.slow
def test_no_other_process_gets_a_port_that_is_not_bound_yet() -> None:
    first = free_ports(2)
    assert run_alone(taken_again, first) == [False, False]


def test_no_port_is_given_twice() -> None:
    first = free_ports(3)
    given = {first, first + 1, first + 2}
    assert given.isdisjoint(free_port() for _ in range(20))
    assert not any(map(take, given))


def test_port_in_use_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not take(server.getsockname()[1])
