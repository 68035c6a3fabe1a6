"""Settings and listeners have to fit each other."""

from __future__ import annotations

import pytest

from coterie_server.address import Address
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.options import ServerOptions
from coterie_server.config.settings import Settings, SettingsError

HERE = Address("127.0.0.1", 0)


def options(*names: str, key: str) -> ServerOptions:
    """A server with these listeners, and a setting for one."""
    settings = Settings.load(environ={}, overrides=[f"{key}=required"])
    listeners = tuple(ListenerOptions(HERE, name=each) for each in names)
    return ServerOptions(settings=settings, listeners=listeners)


def test_settings_are_for_a_listener_whatever_its_capitals() -> None:
    found = options("OUTSIDE", key="listener.name.outside.ssl.client.auth")
    assert found.settings.for_listener("OUTSIDE").ssl_client_auth == "required"


def test_settings_for_a_listener_that_is_not_there_are_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        options("INSIDE", "OUTSIDE", key="listener.name.outsid.ssl.client.auth")
    assert str(caught.value) == (
        "listener.name.outsid.ssl.client.auth: there is no listener of that name, only INSIDE and"
        " OUTSIDE"
    )
