"""The settings that say how clients log in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coterie_server.config.security_settings import SecuritySettings
from coterie_server.config.setting import INT64_MAX, declare, declare_number

__all__ = ["SaslSettings"]

_ANY: Final = r"[^\0]*"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OAUTHBEARER: Final = ("OAUTHBEARER",)
_MECHANISM: Final = rf"\s*({'|'.join(_MECHANISMS)})\s*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings(SecuritySettings):
    """A part of `Settings`."""

    # Logging in

    sasl_enabled_mechanisms: str = declare(
        "SCRAM-SHA-512,SCRAM-SHA-256",
        "By which mechanisms clients of `SASL_PLAINTEXT` and `SASL_SSL` listeners may log in. "
        "Kafka's default, `GSSAPI`, is not supported.",
        pattern=f"{_MECHANISM}(,{_MECHANISM})*",
        form="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, or some of them, separated by "
        "commas",
        kafka=True,
        per_listener=True,
    )
    plain_sasl_jaas_config: str = declare(
        "",
        "Users who may log in by PLAIN, besides those in the store, in Kafka's form: "
        '`org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";`.',
        pattern=_ANY,
        form='text such as PlainLoginModule required user_NAME="PASSWORD";',
        kafka=True,
        per_listener=True,
        secret=True,
    )
    connections_max_reauth_ms: int = declare_number(
        0,
        "How long a client may go on without logging in again; 0 is for ever. A connection on "
        "which that was not done in time is closed at its next request.",
        unit="ms",
        at_least=0,
        at_most=INT64_MAX,
        kafka=True,
        per_listener=True,
        mechanisms=_MECHANISMS,
    )
    connection_failed_authentication_delay_ms: int = declare_number(
        100,
        "How long a client that fails to log in has to wait until it is told and its connection "
        "is closed.",
        unit="ms",
        at_least=0,
        kafka=True,
    )
    connection_login_timeout_ms: int = declare_number(
        30_000,
        "How long a client that has to log in may take for that, apart from the time that the "
        "node takes for it, before its connection is closed.",
        unit="ms",
    )
    sasl_server_max_receive_size: int = declare_number(
        524_288,
        "The largest request of a client that has not logged in yet.",
        unit="bytes",
        kafka=True,
    )
    sasl_oauthbearer_jwks_endpoint_url: str = declare(
        "",
        "The file with the public keys of the identity provider that signs OAUTHBEARER tokens: a "
        "JWKS, or keys and certificates in PEM. It is read again when it changes.",
        pattern=r"(file:///[^\0]*)?",
        form="file:///PATH; keep a copy of what an identity provider has at an https address",
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )
    sasl_oauthbearer_expected_audience: str = declare(
        "",
        "Audiences, separated by commas, one of which tokens must be for; without any, all are "
        "accepted.",
        pattern=_ANY,
        form="text",
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )
    sasl_oauthbearer_expected_issuer: str = declare(
        "",
        "By whom tokens must be issued; without it, by anyone who has the key.",
        pattern=_ANY,
        form="text",
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )
    sasl_oauthbearer_clock_skew_seconds: int = declare_number(
        30,
        "How far the clock of the identity provider may be from this node's.",
        unit="s",
        at_least=0,
        at_most=86_400,
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )
    sasl_oauthbearer_sub_claim_name: str = declare(
        "sub",
        "The claim of a token that has the user's name.",
        pattern=r"[^\0\s]+",
        form="the name of a claim",
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )
    sasl_oauthbearer_scope_claim_name: str = declare(
        "scope",
        "The claim of a token that has its scopes.",
        pattern=r"[^\0\s]+",
        form="the name of a claim",
        kafka=True,
        per_listener=True,
        mechanisms=_OAUTHBEARER,
    )

    # First users

    bootstrap_users_file: str = declare(
        "",
        "A file with users who are stored at the start unless there are, or once were, users of "
        "their names: lines of `NAME:PASSWORD`, or of what Kafka's `kafka-storage format "
        "--add-scram` takes.",
        pattern=_ANY,
        form="the path of a file",
    )
    bootstrap_user: str = declare(
        "",
        "A user who is stored at the start unless there is, or once was, one of that name: the "
        "first administrator.",
        pattern=r"[^\0]*",
        form="the name of a user",
    )
    bootstrap_password: str = declare(
        "",
        "The password of `bootstrap.user`.",
        pattern=_ANY,
        form="a password",
        secret=True,
    )
