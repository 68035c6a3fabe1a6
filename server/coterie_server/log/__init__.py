"""The node's log: the format of its lines, and which events are worth one."""

from coterie_protocol.extras import needs_extra

with needs_extra("server", "coterie_server"):
    from coterie_server.log.configuration import configure
    from coterie_server.log.event_log import EventLog

__all__ = ["EventLog", "configure"]
