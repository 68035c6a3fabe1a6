"""What a node tells over HTTP: its health, its metrics, and its groups."""

from coterie_protocol.extras import needs_extra

with needs_extra("server", "coterie_server"):
    from coterie_server.http.access import AllowedHosts
    from coterie_server.http.app import create_app
    from coterie_server.http.group_view import AwaitedMembers, GroupView, MemberView
    from coterie_server.http.groups import GroupSummary
    from coterie_server.http.node_view import NodeView
    from coterie_server.http.others import OtherNodes
    from coterie_server.http.server import HttpServer
    from coterie_server.http.tokens import TokenError, TokenOptions, Tokens, node_token

__all__ = [
    "AllowedHosts",
    "AwaitedMembers",
    "GroupSummary",
    "GroupView",
    "HttpServer",
    "MemberView",
    "NodeView",
    "OtherNodes",
    "TokenError",
    "TokenOptions",
    "Tokens",
    "create_app",
    "node_token",
]
