"""How commands prove who they are, by Kafka's protocol and over HTTP.

Passwords and tokens come from files and variables, never from arguments, which other users of the
machine can see.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from coterie_cli.node_http import Access, is_https
from coterie_cli.target import Target
from coterie_cli.variables import PASSWORD, Variable

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from coterie_client.wire import Security

__all__ = ["http_access", "properties_of", "security_of"]

#: Kafka ignores keys that it does not know, so its tools take a file with this one as well.
_HTTP_TOKEN: Final = "coterie.http.token"  # noqa: S105 - the key, not the token
_BEARER: Final = "OAUTHBEARER"
#: What can be sent in a header as one word.
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_TOKEN_CHARS_MAX: Final = 8_192


def properties_of(target: Target) -> Mapping[str, str]:
    """What is in the file of properties, if one is given; raises `ConfigurationError`."""
    if target.config_file is None:
        return {}
    from coterie_client.wire.client_properties import read_properties

    return read_properties(target.config_file)


def security_of(target: Target) -> Security:
    """How to connect; raises `ConfigurationError` if that can't be done as it is said."""
    from coterie_client.errors import ConfigurationError
    from coterie_client.wire import PLAINTEXT, Security
    from coterie_client.wire.security import Overrides

    if not target.says_how:
        return PLAINTEXT
    base = PLAINTEXT
    if target.config_file is not None:
        base = Security.from_properties(target.config_file)
    password = os.environ.get(PASSWORD)
    if target.user is not None and password is None:
        raise ConfigurationError(f"Put {target.user}'s password into {PASSWORD}.")
    token = os.environ.get(Variable.TOKEN) if target.mechanism == _BEARER else None
    if target.mechanism == _BEARER and not (token or target.token_file or target.user):
        raise ConfigurationError(
            f"Put the token for {_BEARER} into {Variable.TOKEN}, or name a file with --token-file."
        )
    if target.token_file is not None:
        _read(target.token_file)  # or it would look like a server that can't be reached
    return base.overridden(
        Overrides(
            tls=target.tls,
            cafile=target.ca_file,
            certfile=target.cert_file,
            keyfile=target.key_file,
            key_password=os.environ.get(Variable.KEY_PASSWORD),
            mechanism=target.mechanism,
            username=target.user,
            password=password,
            token=token,
            token_file=target.token_file,
        )
    )


def http_access(target: Target, address: str) -> Access:
    """What to show a node over HTTP; raises `ConfigurationError` if a file can't be read.

    Without TLS, a token goes to this machine, and to where `--http` says, but not to wherever a
    server says that it answers HTTP.
    """
    token = _http_token(target)
    may_have_it = is_https(address) or target.http is not None or _is_here(address)
    return Access(
        token=token if may_have_it else None,
        is_withheld=token is not None and not may_have_it,
        tls=_https_context(target) if is_https(address) else None,
    )


def _http_token(target: Target) -> str | None:
    from coterie_client.errors import ConfigurationError

    where: object = f"{Variable.HTTP_TOKEN} or {_HTTP_TOKEN}"
    if target.http_token_file is not None:
        where, token = target.http_token_file, _read(target.http_token_file)
    else:
        given = os.environ.get(Variable.HTTP_TOKEN) or properties_of(target).get(_HTTP_TOKEN)
        if not given:
            return None
        token = given
    if not _VISIBLE.fullmatch(token):
        raise ConfigurationError(f"The token in {where} is empty, or has spaces or odd characters.")
    return token


def _read(path: Path) -> str:
    from coterie_client.errors import ConfigurationError

    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_TOKEN_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(f"The token in {path} can't be read: {reason}.") from None


def _https_context(target: Target) -> ssl.SSLContext:
    import ssl

    return security_of(target).tls_context() or ssl.create_default_context()


def _is_here(address: str) -> bool:
    from ipaddress import ip_address

    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
