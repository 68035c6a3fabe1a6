"""The node's log: the format of its lines, and which events are worth one."""

from coterie_server.log.configuration import configure
from coterie_server.log.event_log import EventLog

__all__ = ["EventLog", "configure"]
