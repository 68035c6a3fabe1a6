"""What a node tells over HTTP: health, figures, and its groups."""

from coterie_server.http.app import create_app
from coterie_server.http.hosts import Hosts
from coterie_server.http.serving import HttpServer
from coterie_server.http.views import (
    Awaiting,
    GroupSummary,
    GroupView,
    MemberView,
    NodeView,
    summarize,
    view,
)

__all__ = [
    "Awaiting",
    "GroupSummary",
    "GroupView",
    "Hosts",
    "HttpServer",
    "MemberView",
    "NodeView",
    "create_app",
    "summarize",
    "view",
]
