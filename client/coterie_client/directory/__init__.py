"""Who owns what in a group, for programs that send work to its owners.

`watching` holds one watch after the other, over a connection; `http_stream` turns the bytes of a
connection into server-sent events, and `table` makes a table of these.  The latter two do no I/O.
"""

from coterie_client.directory.directory import Directory
from coterie_client.directory.table import Owner

__all__ = ["Directory", "Owner"]
