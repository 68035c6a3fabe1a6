"""Authentication, assembled from the settings: what each listener's clients log in with."""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote, urlsplit

from coterie_protocol.extras import needs_extra
from coterie_server.address import is_loopback
from coterie_server.config.assembly import connection_limits
from coterie_server.config.setting import SettingsError
from coterie_server.config.users import FirstUser, first_users, jaas_users
from coterie_server.log.logger import get_logger
from coterie_server.net.check_queue import CheckQueue, CheckThreads
from coterie_server.net.guard import Authenticator, Logins
from coterie_server.security import ScramCredential, ScramMechanism, SecurityProtocol
from coterie_server.security.authentication import MakeConversation, SaslTerms
from coterie_server.security.sasl import (
    NODE_MECHANISM,
    SALT_BYTES,
    Credentials,
    Decoys,
    KnownUsers,
    OAuthBearerConversation,
    PlainConversation,
    RightPasswords,
    ScramConversation,
    Users,
    VerifyToken,
    node_conversation,
)
from coterie_server.storage.agreed import agreed_bytes

if TYPE_CHECKING:
    from coterie_server.config.listeners import ListenerOptions
    from coterie_server.config.options import ServerOptions
    from coterie_server.config.settings import Settings
    from coterie_server.net import Limits, Terms
    from coterie_server.storage import Store

__all__ = ["Authenticators", "first_credentials"]

_log = get_logger(__name__)

_NONCE_BYTES: Final = 24
_KEY_BYTES: Final = 32
#: Under what name the nodes of a store keep the secret that they share.
_SHARED: Final = "cluster.secret"

#: How passwords of the settings are kept in memory.
_STRONGEST: Final = (ScramMechanism.SCRAM_SHA_512,)

Stored = dict[tuple[str, ScramMechanism], ScramCredential]


class Authenticators:
    """Makes what authenticates the clients of each listener; they wait until `open`."""

    def __init__(
        self, settings: Settings, limits: Limits, secret: bytes, plain: dict[str, Stored]
    ) -> None:
        self._settings = settings
        self._limits = limits
        self.secret = secret
        self._plain_users = plain
        self._right = RightPasswords(secrets.token_bytes(_KEY_BYTES))
        self._decoys = Decoys(hmac.digest(secret, b"decoys", "sha256"))
        self._users: Users = KnownUsers()
        self._loop = asyncio.get_running_loop()
        self._threads = CheckThreads()
        self.logins = Logins(
            CheckQueue(self._threads.start),
            self._loop.call_later,
            failure_delay_ms=settings.connection_failed_authentication_delay_ms,
        )

    @classmethod
    async def make(cls, options: ServerOptions, store: Store) -> Self:
        """Read what the settings say of the listeners; raises `SettingsError`.

        All nodes on the store share a secret, by which they know each other.
        """
        settings = options.settings
        secret = await store.agree(_SHARED, secrets.token_hex(32))
        plain: dict[str, Stored] = {}
        for each in options.listeners:
            own = settings.for_listener(each.name)
            key = f"listener.name.{each.name.lower()}.plain.sasl.jaas.config"
            users = jaas_users(key, own.plain_sasl_jaas_config)
            made = [FirstUser(name, _STRONGEST, password) for name, password in users.items()]
            plain[each.name] = await _stored(made)
        known = agreed_bytes(store.url, _SHARED, secret)
        return cls(settings, connection_limits(settings, {}), known, plain)

    def add_to(self, terms: Terms, listener: ListenerOptions) -> Terms:
        """The terms of a listener, with what authenticates its clients."""
        tls = terms.tls

        def bindings() -> Collection[bytes]:
            return () if tls is None else (bytes.fromhex(tls.fingerprint),)

        return replace(terms, authenticator=self._authenticator(listener, bindings))

    def _authenticator(
        self, listener: ListenerOptions, bindings: Callable[[], Collection[bytes]]
    ) -> Authenticator:
        """`bindings` are what other nodes may bind their proofs to: the certificate."""
        settings = self._settings.for_listener(listener.name)
        mechanisms = [each.strip() for each in settings.sasl_enabled_mechanisms.split(",")]
        has_sasl = listener.protocol.has_sasl
        if listener.protocol is SecurityProtocol.SASL_PLAINTEXT:
            _warn_of_readable(listener, mechanisms)
        credentials = Credentials(
            users=_Current(lambda: self._users),
            decoys=self._decoys,
            plain_users=KnownUsers(self._plain_users.get(listener.name, {})),
        )
        own = {each: self._settings.for_listener(listener.name, each) for each in mechanisms}
        terms = SaslTerms(
            {each: self._conversation(each, credentials, own[each]) for each in mechanisms}
            if has_sasl
            else {},
            {NODE_MECHANISM: lambda: node_conversation(self.secret, _nonce(), bindings())},
            {each: own[each].connections_max_reauth_ms for each in mechanisms},
        )
        return Authenticator(
            listener.name,
            self.logins,
            terms,
            is_required=has_sasl,
            max_receive_bytes=settings.sasl_server_max_receive_size,
            limits=self._limits,
            now=self._loop.time,
        )

    def _conversation(
        self, mechanism: str, credentials: Credentials, settings: Settings
    ) -> MakeConversation:
        if mechanism == "PLAIN":
            return lambda: PlainConversation(credentials, self._right)
        if mechanism == "OAUTHBEARER":
            verify = _token_verifier(settings)
            return lambda: OAuthBearerConversation(verify)
        scram = ScramMechanism[mechanism.replace("-", "_")]
        return lambda: ScramConversation(lambda name: credentials.for_scram(name, scram), _nonce())

    def open(self, users: Users) -> None:
        """Begin, now that the users are known."""
        self._users = users
        self.logins.open()

    async def close(self) -> None:
        """Wait for the threads."""
        await self._threads.close()


class _Current:
    """The users that there are when one is asked for."""

    def __init__(self, users: Callable[[], Users]) -> None:
        self._get = users

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._get().credential(name, mechanism)

    @property
    def version(self) -> object:
        return self._get().version

    def all(self) -> Iterable[Mapping[ScramMechanism, ScramCredential]]:
        return self._get().all()


def _warn_of_readable(listener: ListenerOptions, mechanisms: list[str]) -> None:
    readable = [each for each in mechanisms if not each.startswith("SCRAM")]
    if readable and not is_loopback(listener.bind.host):
        _log.warning(
            "passwords or tokens are sent readable for all on the way: use SASL_SSL, or SCRAM",
            listener=listener.name,
            mechanisms=readable,
        )


def _nonce() -> str:
    return base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()


def _token_verifier(settings: Settings) -> VerifyToken:
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise SettingsError(
            "OAUTHBEARER needs the keys of the identity provider: set"
            " sasl.oauthbearer.jwks.endpoint.url to file:///PATH, a JWKS or PEM file."
        )
    with needs_extra("oauth", "OAUTHBEARER"):
        from coterie_server.key_file import token_verifier  # noqa: PLC0415  # in an extra
    return token_verifier(Path(unquote(urlsplit(url).path)), settings)


async def _stored(users: list[FirstUser]) -> Stored:
    """What is kept of users' passwords, worked out in a thread."""

    def make() -> Stored:
        return {
            (each.name, mechanism): credential
            for each in users
            for mechanism, credential in each.credentials(_salt).items()
        }

    return await asyncio.to_thread(make) if users else {}


def _salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


async def first_credentials(settings: Settings) -> Stored:
    """What is stored at the start of users who are not there yet; raises `SettingsError`."""
    return await _stored(_first_users(settings))


def _first_users(settings: Settings) -> list[FirstUser]:
    found = []
    path = settings.bootstrap_users_file
    if path:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SettingsError(f"cannot read bootstrap.users.file {path}: {why}") from error
        found += first_users(path, text)
    if bool(settings.bootstrap_user) != bool(settings.bootstrap_password):
        raise SettingsError("bootstrap.user and bootstrap.password must be set together")
    if settings.bootstrap_user:
        found.append(
            FirstUser(settings.bootstrap_user, tuple(ScramMechanism), settings.bootstrap_password)
        )
    return found
