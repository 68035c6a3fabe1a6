"""The settings that say who is let in, and how: listeners, TLS, and what clients must show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from coterie_server.config.group_settings import GroupSettings
from coterie_server.config.setting import declare

__all__ = ["SecuritySettings"]

#: Any text, of several lines as well.
_ANY: Final = r"[^\0]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings(GroupSettings):
    """A part of `Settings`."""

    # Listeners

    listeners: str = declare(
        "",
        "Where to serve clients, unless `--listen` says so: listeners, separated by commas.",
        pattern=_ANY,
        form="NAME://HOST:PORT, separated by commas",
        kafka=True,
    )
    advertised_listeners: str = declare(
        "",
        "Where clients are told to connect, unless `--advertise` says so; by default, where the "
        "listener of that name listens.",
        pattern=_ANY,
        form="NAME://HOST:PORT, separated by commas",
        kafka=True,
    )
    listener_security_protocol_map: str = declare(
        "",
        "Which security protocol each listener speaks: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or "
        "`SASL_SSL`. A listener that is named after a protocol speaks that; any other must be "
        "here if this is set, and speaks `PLAINTEXT` if it is not.",
        pattern=_ANY,
        form="NAME:PROTOCOL, separated by commas",
        kafka=True,
    )

    # TLS

    ssl_keystore_location: str = declare(
        "",
        "A PEM file with the certificate, those that it was issued by, and its key, unless that "
        "is in `ssl.key.location`.",
        pattern=_ANY,
        form="the path of a file",
        kafka=True,
        per_listener=True,
    )
    ssl_key_location: str = declare(
        "",
        "A PEM file with the key of the certificate.",
        pattern=_ANY,
        form="the path of a file",
        per_listener=True,
    )
    ssl_keystore_certificate_chain: str = declare(
        "",
        "The certificate and those that it was issued by, as PEM, in place of a file.",
        pattern=_ANY,
        form="PEM text",
        kafka=True,
        per_listener=True,
    )
    ssl_keystore_key: str = declare(
        "",
        "The key of `ssl.keystore.certificate.chain`, as PEM.",
        pattern=_ANY,
        form="PEM text",
        kafka=True,
        per_listener=True,
        secret=True,
    )
    ssl_key_password: str = declare(
        "",
        "The password of the key, if it is encrypted.",
        pattern=_ANY,
        form="text",
        kafka=True,
        per_listener=True,
        secret=True,
    )
    ssl_keystore_type: Literal["pem"] = declare(
        "pem", "The format of certificate and key.", kafka=True, per_listener=True
    )
    ssl_truststore_location: str = declare(
        "",
        "A PEM file with the authorities whose client certificates are accepted.",
        pattern=_ANY,
        form="the path of a file",
        kafka=True,
        per_listener=True,
    )
    ssl_truststore_certificates: str = declare(
        "",
        "The authorities whose client certificates are accepted, as PEM, in place of a file.",
        pattern=_ANY,
        form="PEM text",
        kafka=True,
        per_listener=True,
    )
    ssl_truststore_type: Literal["pem"] = declare(
        "pem", "The format of the authorities.", kafka=True, per_listener=True
    )
    ssl_client_auth: Literal["none", "requested", "required"] = declare(
        "none",
        "Whether clients are asked for a certificate, and whether they must have one. As in Kafka, "
        "a `SASL_SSL` listener asks for one only if this is set for that listener.",
        kafka=True,
        per_listener=True,
    )
    ssl_enabled_protocols: str = declare(
        "TLSv1.2,TLSv1.3",
        "Which versions of TLS are spoken.",
        pattern=r"\s*TLSv1\.[23]\s*(,\s*TLSv1\.[23]\s*)*",
        form="TLSv1.2, TLSv1.3, or both, separated by a comma",
        kafka=True,
        per_listener=True,
    )
    ssl_principal_mapping_rules: str = declare(
        "DEFAULT",
        "How the subject of a client's certificate becomes the name of its principal: "
        "`RULE:PATTERN/REPLACEMENT/`, with `L` or `U` behind it for small or capital letters, or "
        "`DEFAULT` for the subject as it is; the first rule that matches counts.",
        pattern=_ANY,
        form="rules, separated by commas",
        kafka=True,
        per_listener=True,
    )
