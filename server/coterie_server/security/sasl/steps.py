"""What a SASL conversation comes to: what is answered to each of the client's messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from coterie_protocol.exceptions import CoterieError
from coterie_server.security.principal import Principal

__all__ = ["Accepted", "Challenge", "Check", "Conversation", "LoginRefusedError", "Step"]


class LoginRefusedError(CoterieError):
    """The client has not proved who it is.

    The text is for our log; `told` is what the client may know, None for no more than that its
    credentials are invalid.
    """

    def __init__(
        self,
        why: str,
        *,
        told: str | None = None,
        user: str | None = None,
        is_logged: bool = False,
    ) -> None:
        super().__init__(why)
        self.told = told
        #: Whether it was logged when the client was told for the first time.
        self.is_logged = is_logged
        #: The name that the client claimed, as far as it came to that.
        self.user = user


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to say more."""

    token: bytes = field(repr=False)
    #: Why it can't be accepted any more, where the client is told so by the mechanism.  It may
    #: never say more, so this is to be logged at once.
    refusal: LoginRefusedError | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client has proved who it is."""

    principal: Principal
    token: bytes = field(default=b"", repr=False)
    #: For how long its credentials hold; None for ever.
    lifetime_ms: int | None = None
    #: Raises `LoginRefusedError` if what proved it is the user's no more; whoever began the
    #: conversation calls it right before the client is told.
    confirm: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """What takes the processor so long that the event loop must not wait for it.

    `run` needs nothing but the processor, may be called in any thread, and raises
    `LoginRefusedError` as a conversation does.
    """

    run: Callable[[], Accepted] = field(repr=False)


Step = Challenge | Accepted | Check


class Conversation(Protocol):
    """One attempt of one client to prove who it is, by one mechanism."""

    def respond(self, token: bytes) -> Step:
        """Take the client's next message; raises `LoginRefusedError`, which ends it."""
