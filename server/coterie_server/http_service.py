"""The HTTP of a server: where it is answered, to whom, and how other nodes are asked."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from coterie_server.address import Address, is_loopback
from coterie_server.config.terms import http_tls
from coterie_server.http import (
    AllowedHosts,
    HttpServer,
    OtherNodes,
    TokenError,
    TokenOptions,
    Tokens,
    create_app,
    node_token,
)
from coterie_server.server_error import ServerError, why_not

if TYPE_CHECKING:
    from coterie_server.backfill import Backfill
    from coterie_server.config.options import ServerOptions
    from coterie_server.config.settings import Settings
    from coterie_server.http import NodeView
    from coterie_server.metrics import Metrics

__all__ = ["HttpService"]


class HttpService:
    """Answers HTTP, if a server is to do so."""

    def __init__(self, options: ServerOptions) -> None:
        """Read tokens and certificates; raises `ServerError` or `ListenerError`."""
        self._options = options
        settings, worker = options.settings, options.worker
        self.tls = None if options.http is None else http_tls(settings)
        self._tokens = _tokens(settings)
        siblings = () if worker is None else worker.node_ids
        self._others = OtherNodes(siblings, self.tls)
        self._parts = AsyncExitStack()
        #: Where it is answered; None if it is not.
        self.address: Address | None = None
        #: Where no other worker of the same supervisor answers.
        self.own_address: Address | None = None
        if options.http is not None:
            self._refuse_to_be_open(options.http)

    def _refuse_to_be_open(self, address: Address) -> None:
        settings = self._options.settings
        if settings.http_allow_insecure or is_loopback(address.host):
            return
        anyway = "or http.allow.insecure = true if all who reach it may"
        if self.tls is None:
            raise ServerError(
                f"HTTP on {address} would go to other machines in the clear. Set"
                f" http.ssl.keystore.location, {anyway} read it; or choose an address of this"
                " machine alone, such as 127.0.0.1:9080, with --http."
            )
        if not self._tokens.guard_reading and settings.http_ssl_client_auth != "required":
            raise ServerError(
                f"HTTP on {address} would tell other machines of all groups. Set"
                f" http.read.token.file, {anyway} know."
            )

    async def start(self, view: NodeView, backfill: Backfill, metrics: Metrics) -> None:
        """Begin to answer; raises `ServerError` if the address can't be had."""
        address, worker = self._options.http, self._options.worker
        if address is None:
            return
        self._parts.push_async_callback(self._others.close)
        hosts, watchers = self._allowed_hosts(), self._options.settings.http_max_watchers
        app = create_app(view, backfill, metrics, hosts, self._others, self._tokens, watchers)
        http = HttpServer(app, tls=self.tls)
        self._parts.push_async_callback(http.close)
        try:
            if worker is None or worker.http is None:
                await http.start(address.host, address.port)
                self.address = self.own_address = Address(address.host, http.port)
            else:
                await http.start_shared(worker.http.host, worker.http.port)
                inherited = worker.inherited.get(address, ())
                await http.start_shared(address.host, address.port, inherited)
                self.address, self.own_address = address, worker.http
        except OSError as error:
            raise ServerError(
                f"can't answer HTTP on {address}: {why_not(error)}. Choose another address with"
                " --http, or --http off."
            ) from error

    async def close(self) -> None:
        """Stop answering."""
        await self._parts.aclose()

    def reload(self) -> None:
        """Read the files of tokens again."""
        self._tokens.reload()

    def trust_nodes(self, secret: str) -> None:
        """Let nodes ask each other that share this secret."""
        token = node_token(secret)
        self._tokens.admit_nodes(token)
        self._others.token = token

    def _allowed_hosts(self) -> AllowedHosts:
        options = self._options
        listeners = options.listeners
        addresses = [options.http, *(address for each in listeners for address in each.addresses)]
        ours = (address.host for address in addresses if address is not None)
        return AllowedHosts((*ours, *options.settings.http_allowed_hosts.split(",")))


def _tokens(settings: Settings) -> Tokens:
    try:
        return Tokens(
            TokenOptions(
                settings.http_read_token,
                settings.http_read_token_file,
                settings.http_admin_token,
                settings.http_admin_token_file,
            )
        )
    except TokenError as error:
        raise ServerError(str(error)) from error
