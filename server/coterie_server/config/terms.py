"""What holds at each listener, and for HTTP's TLS, from the settings."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from coterie_server.config.listeners import ListenerError, ListenerOptions
from coterie_server.config.settings import Settings
from coterie_server.net import Terms, UnknownSubjectError
from coterie_server.security import Principal, SecurityProtocol
from coterie_server.security.distinguished_name import subject_of
from coterie_server.security.principal import USER_KIND
from coterie_server.security.principal_mapping import PrincipalMapping
from coterie_server.tls import ServerTls, TlsError, TlsOptions

__all__ = ["http_tls", "make_terms", "overrides_by_address"]

_COUNT: Final = re.compile(r"[0-9]{1,9}")

Resolve = Callable[[str], Iterable[str]]
"""The addresses of a host; raises `OSError` if it has none."""


def make_terms(settings: Settings, listener: ListenerOptions) -> Terms:
    """What holds at a listener; raises `ListenerError` if its certificate can't be used."""
    protocol, name = listener.protocol, listener.name
    if protocol is SecurityProtocol.SASL_SSL:
        # As in Kafka: who logs in has no need of a certificate.
        settings = replace(settings, ssl_client_auth="none")
    own = settings.for_listener(name)
    tls, identify = None, None
    if protocol.has_tls:
        try:
            tls = ServerTls(_tls_options(own))
        except TlsError as error:
            raise ListenerError(f"The listener {listener} speaks {protocol}: {error}") from error
    if protocol is SecurityProtocol.SSL:
        identify = _identify(own.ssl_principal_mapping_rules)
    return Terms(
        name,
        protocol,
        tls,
        identify,
        max_connections=own.max_connections,
        max_creation_rate=own.max_connection_creation_rate,
    )


def http_tls(settings: Settings) -> ServerTls | None:
    """The TLS of HTTP, if it has a certificate; raises `ListenerError` if that can't be used."""
    options = TlsOptions(
        prefix="http.ssl",
        keystore_location=settings.http_ssl_keystore_location,
        key_location=settings.http_ssl_key_location,
        key_password=settings.http_ssl_key_password,
        truststore_location=settings.http_ssl_truststore_location,
        client_auth=settings.http_ssl_client_auth,
        protocols=settings.ssl_enabled_protocols,
    )
    if not options.files and options.client_auth == "none":
        return None
    try:
        return ServerTls(options)
    except TlsError as error:
        raise ListenerError(f"HTTP is to be answered with TLS: {error}") from error


def overrides_by_address(text: str, resolve: Resolve | None = None) -> Mapping[str, int]:
    """Read `max.connections.per.ip.overrides`, or raise `ListenerError`.

    Hosts are looked up once, as by Kafka.
    """
    found: dict[str, int] = {}
    for each in filter(None, map(str.strip, text.split(","))):
        host, colon, count = (part.strip() for part in each.rpartition(":"))
        if not colon or not host or not _COUNT.fullmatch(count):
            raise ListenerError(
                f"max.connections.per.ip.overrides: expected HOST:CONNECTIONS, got {each!r}."
            )
        try:
            addresses = (resolve or _addresses_of)(host.strip("[]"))
        except OSError as error:
            raise ListenerError(
                f"max.connections.per.ip.overrides: {host} has no address: {error.strerror}."
            ) from error
        found |= dict.fromkeys(addresses, int(count))
    return found


def _addresses_of(host: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]


def _tls_options(settings: Settings) -> TlsOptions:
    return TlsOptions(
        keystore_location=settings.ssl_keystore_location,
        key_location=settings.ssl_key_location,
        certificate_chain=settings.ssl_keystore_certificate_chain,
        key=settings.ssl_keystore_key,
        key_password=settings.ssl_key_password,
        truststore_location=settings.ssl_truststore_location,
        truststore_certificates=settings.ssl_truststore_certificates,
        client_auth=settings.ssl_client_auth,
        protocols=settings.ssl_enabled_protocols,
    )


def _identify(rules: str) -> Callable[[bytes], Principal]:
    try:
        mapping = PrincipalMapping.parse(rules)
    except ValueError as error:
        raise ListenerError(f"ssl.principal.mapping.rules: {error}.") from None

    def identify(certificate: bytes) -> Principal:
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise UnknownSubjectError(f"the client's certificate is malformed: {error}") from error
        name = mapping.name_of(subject)
        if name is None:
            raise UnknownSubjectError(f"no rule of ssl.principal.mapping.rules matches {subject!r}")
        principal = Principal(USER_KIND, name)
        if not principal.can_be_stored:
            raise UnknownSubjectError(f"the name in the client's certificate is too long: {name!r}")
        return principal

    return identify
