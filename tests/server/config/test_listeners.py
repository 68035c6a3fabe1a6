"""Listeners as they are asked for: names, addresses, and which belong together."""

from __future__ import annotations

import pytest

from coterie_server.address import Address
from coterie_server.config.listeners import (
    ListenerError,
    ListenerOptions,
    NamedAddress,
    make_listeners,
    named_addresses,
)
from coterie_server.security import SecurityProtocol


def made(listen: str, advertise: str = "") -> dict[str, tuple[str, str]]:
    """Make listeners; return where each binds and what it advertises, by its name."""
    parsed = ([NamedAddress.parse(each) for each in text.split()] for text in (listen, advertise))
    return {
        each.name: (str(each.bind), str(each.advertise or "")) for each in make_listeners(*parsed)
    }


@pytest.mark.parametrize("text", ["here:1", "[::1]:9092", "OUTSIDE://here:1", "a-b_2://[::1]:0"])
def test_named_address_is_written_as_it_was_read(text: str) -> None:
    assert str(NamedAddress.parse(text)) == text


def test_address_without_a_name_is_the_default_listeners() -> None:
    assert NamedAddress.parse("here:1") == NamedAddress.parse("default://here:1")


@pytest.mark.parametrize("text", ["://here:1", "a b://here:1", "-a://here:1", "a://b://here:1"])
def test_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a listener's name"):
        NamedAddress.parse(text)


@pytest.mark.parametrize("text", ["OUTSIDE://here", "OUTSIDE://here:x", "OUTSIDE://"])
def test_name_needs_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        NamedAddress.parse(text)


def test_listener_advertises_where_it_listens() -> None:
    assert made("here:1") == {"default": ("here:1", "")}


def test_addresses_belong_together_by_their_names() -> None:
    listen = "0.0.0.0:1 OUTSIDE://0.0.0.0:2"
    told = {"default": ("0.0.0.0:1", "here:1"), "OUTSIDE": ("0.0.0.0:2", "there:3")}
    assert made(listen, "here:1 OUTSIDE://there:3") == told
    assert made(listen, "OUTSIDE://there:3 here:1") == told


def test_single_listener_need_not_be_named_again() -> None:
    assert made("INSIDE://0.0.0.0:1", "here:1") == {"INSIDE": ("0.0.0.0:1", "here:1")}


#: What is asked for, and what the sentence says.
REFUSED = {
    "every address": ("0.0.0.0:1", "", "can't connect to 0.0.0.0:1.*--advertise HOST:PORT"),
    "every address of a named one": (
        "here:1 OUTSIDE://[::]:2",
        "",
        r"OUTSIDE://\[::\]:2.*--advertise OUTSIDE://HOST:PORT",
    ),
    "every address advertised": ("here:1", "0.0.0.0:1", "can't connect to 0.0.0.0:1.*Advertise a"),
    "two without a name": ("here:1 here:2", "", "2 listeners have no name: .*E://here:2"),
    "one name twice": ("A://here:1 A://here:2", "", "2 listeners have the name 'A'"),
    "two for one": ("here:1", "a:1 b:1", "2 advertised addresses have no name"),
    "no such listener": (
        "here:1 OUTSIDE://here:2",
        "OUTSDE://a:1",
        "OUTSDE://a:1 is advertised for a listener that is not there; there are default and OUTS",
    ),
    "not that listener": ("here:1", "OUTSIDE://a:1", "the only listener is default"),
    "any listener": (
        "A://here:1 B://here:2",
        "a:1",
        "does not say which listener it is for, and there are A and B: write A://a:1",
    ),
}


@pytest.mark.parametrize(("listen", "advertise", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(listen: str, advertise: str, sentence: str) -> None:
    with pytest.raises(ListenerError, match=sentence):
        made(listen, advertise)


def test_addresses_of_http_belong_to_listeners_as_their_own_do() -> None:
    listen = [NamedAddress.parse(each) for each in ("here:1", "OUTSIDE://here:2")]
    http = [NamedAddress.parse("OUTSIDE://there:3")]
    found = {each.name: each.advertise_http for each in make_listeners(listen, [], http)}
    assert found == {"default": None, "OUTSIDE": Address("there", 3)}
    single = [NamedAddress.parse("INSIDE://here:1")]
    (only,) = make_listeners(single, [], [NamedAddress.parse("there:3")])
    assert only.advertise_http == Address("there", 3)


@pytest.mark.parametrize(
    ("http", "sentence"),
    [
        ("0.0.0.0:1", "can't connect to 0.0.0.0:1"),
        ("OUTSIDE://a:1", "the only listener is default"),
        ("a:1 b:1", "2 advertised addresses of HTTP have no name"),
    ],
)
def test_address_of_http_that_does_not_fit_is_refused(http: str, sentence: str) -> None:
    given = [NamedAddress.parse(each) for each in http.split()]
    with pytest.raises(ListenerError, match=sentence):
        make_listeners([NamedAddress.parse("here:1")], [], given)


def test_listener_knows_all_its_addresses() -> None:
    here, there = Address("here", 1), Address("there", 2)
    assert ListenerOptions(here).addresses == (here,)
    assert ListenerOptions(here, there).addresses == (here, there)
    both = ListenerOptions(here, advertise_http=there)
    assert both.addresses == (here, there)


# Protocols


def spoken(listen: str, protocol_map: str = "") -> dict[str, str]:
    """The protocol of each listener, by its name."""
    addresses = named_addresses("listeners", listen)
    made = make_listeners(addresses, (), protocol_map=protocol_map)
    return {each.name: str(each.protocol) for each in made}


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_listener_named_after_a_protocol_speaks_it(protocol: SecurityProtocol) -> None:
    assert spoken(f"{protocol}://here:1") == {str(protocol): str(protocol)}


def test_protocols_are_mapped_to_names_in_letters_of_any_case() -> None:
    told = "outside:SASL_SSL, Inside:ssl ,default:SASL_PLAINTEXT"
    assert spoken("OUTSIDE://here:1,INSIDE://here:2,here:3", told) == {
        "OUTSIDE": "SASL_SSL",
        "INSIDE": "SSL",
        "default": "SASL_PLAINTEXT",
    }


def test_without_a_map_any_other_name_is_plaintext() -> None:
    assert spoken("here:1,OUTSIDE://here:2") == {"default": "PLAINTEXT", "OUTSIDE": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("protocol_map", "sentence"),
    [
        ("OUTSDE:SSL", "no protocol for the listener OUTSIDE: add OUTSIDE:SSL"),
        ("OUTSIDE:TLS", "expected NAME:PROTOCOL, .* got 'OUTSIDE:TLS'"),
        ("OUTSIDE", "expected NAME:PROTOCOL, .* got 'OUTSIDE'"),
        ("OUTSIDE:SSL,outside:PLAINTEXT", "has outside twice"),
    ],
)
def test_map_that_would_leave_it_open_what_is_spoken_is_refused(
    protocol_map: str, sentence: str
) -> None:
    with pytest.raises(ListenerError, match=sentence):
        spoken("OUTSIDE://here:1", protocol_map)


def test_names_that_differ_in_capitals_alone_are_refused() -> None:
    with pytest.raises(ListenerError, match="2 listeners have the name 'A'"):
        spoken("A://here:1,a://here:2")


def test_setting_with_a_bad_address_is_named() -> None:
    with pytest.raises(ListenerError, match=r"^advertised\.listeners: expected HOST:PORT"):
        named_addresses("advertised.listeners", "A://here:1,B://here")
