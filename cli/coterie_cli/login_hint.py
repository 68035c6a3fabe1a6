"""Whether a server that has hung up wants to know who connects.

A server that wants that, and one that can't answer just now, both hang up when they are asked
something.  But only the former says how one may log in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from coterie_cli.access import security_of
from coterie_cli.daemon_threads import DaemonThreads
from coterie_cli.target import Target

if TYPE_CHECKING:
    from coterie_client.wire import NodeAddress

__all__ = ["wants_login"]

#: How long a command that has failed waits at most, to say why.
_TIMEOUT_S: Final = 2.0
#: A mechanism that no server has: it then says which ones it has.
_NO_MECHANISM: Final = "NONE"


def wants_login(target: Target) -> bool:
    """Whether the first node that answers wants to know who connects; False if none does."""
    from coterie_protocol.exceptions import CoterieError

    try:
        return asyncio.run(_first_answer(target))
    except CoterieError:
        return False


async def _first_answer(target: Target) -> bool:
    from coterie_client.wire import parse_bootstrap

    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    try:
        async with asyncio.timeout(min(target.timeout_s, _TIMEOUT_S)):
            for address in parse_bootstrap(target.bootstrap):
                answer = await _mechanisms(address, target)
                if answer is not None:
                    return bool(answer)
    except TimeoutError:
        pass
    return False


async def _mechanisms(address: NodeAddress, target: Target) -> tuple[str, ...] | None:
    """How one may log in at a node; None if it does not answer."""
    from coterie_client.wire import Connection
    from coterie_protocol.exceptions import CoterieError
    from coterie_protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse

    try:
        connection = await Connection.open(address, security=security_of(target))
    except CoterieError:
        return None
    try:
        asked = SaslHandshakeRequest(mechanism=_NO_MECHANISM)
        answer = await connection.request(asked, timeout_s=_TIMEOUT_S)
    except CoterieError:
        return None
    finally:
        await connection.close()
    return answer.mechanisms if isinstance(answer, SaslHandshakeResponse) else None
