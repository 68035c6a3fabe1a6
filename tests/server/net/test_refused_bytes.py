"""Bytes that are refused are not kept by the error that says why."""

from __future__ import annotations

import weakref
from typing import Final

from coterie_protocol import ProtocolError
from coterie_server.net.incoming import Incoming
from coterie_server.net.limits import Limits
from coterie_server.net.time_limits import TimeLimits
from tests.support.uncollected import uncollected

#: A whole frame, and then a size that no frame has.
_BYTES: Final = b"\0\0\0\x04good" + b"\xff" * 8


def test_refused_bytes_are_freed_without_the_garbage_collector() -> None:
    incoming = Incoming(Limits(), TimeLimits(), lambda _change: None)
    with uncollected():
        assert incoming.cut(_BYTES, 0.0) == [b"good"]
        assert isinstance(incoming.fault, ProtocolError)
        fault = weakref.ref(incoming.fault)
        incoming.let_go()
        assert fault() is None
