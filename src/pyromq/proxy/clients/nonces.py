"""`Nonces`: questions to clients that wait for their answers, which carry the same nonce."""

import asyncio
import secrets
from typing import Any, Final

from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

WAIT: Final = 5.0
MOST: Final = 1_024


class Nonces:
    """An answer counts only if it comes from the client that was asked."""

    def __init__(self, wait: float = WAIT) -> None:
        self._wait = wait
        self._waiting: dict[tuple[str, str], asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, client_id: str) -> str:
        """A nonce for a question; ask it, then `answer`. Raises Refusal when too many wait."""
        if len(self._waiting) >= MOST:
            raise Refusal(
                Code.TOO_MANY_REQUESTS, f"{MOST} questions to clients wait for their answers: try again later"
            )
        nonce = secrets.token_hex(16)
        self._waiting[client_id, nonce] = asyncio.get_running_loop().create_future()
        return nonce

    async def answer(self, client_id: str, nonce: str) -> Any:
        """The command that carries the answer. Raises Refusal when it does not come in time."""
        try:
            async with asyncio.timeout(self._wait):
                return await self._waiting[client_id, nonce]
        except TimeoutError:
            raise Refusal(Code.REQUEST_TIMEOUT, f"client {client_id} did not answer within {self._wait:g} s") from None
        finally:
            self.forget(client_id, nonce)

    def forget(self, client_id: str, nonce: str) -> None:
        """The question was not asked, or its answer is not waited for any more."""
        self._waiting.pop((client_id, nonce), None)

    def answered(self, client_id: str, nonce: str, command: Any) -> None:
        """A client sent a command with a nonce; one that nobody waits for is passed over."""
        future = self._waiting.get((client_id, nonce))
        if future is not None and not future.done():
            future.set_result(command)
