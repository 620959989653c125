"""`Sessions`: the clients that are there, from their first settings or heartbeat until they leave or fall silent.

A proxy that was started anew knows no settings until clients send them again, which some do only after minutes; such a
client is known by its heartbeats alone, and is served all the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.proxy.caller import Caller
from pyromq.proxy.clients.profile import Profile
from pyromq.proxy.grpc.method import Call
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

SILENCE: Final = 120.0
"""Seconds without a sign of life after which a client is taken for gone."""


@dataclass(slots=True)
class Session:
    """One client. `settings` are as it sent them last, None when it has not; `stream` is its telemetry."""

    caller: Caller
    seen_at: float
    profile: Profile = field(default_factory=Profile)
    settings: Any = None
    stream: Call | None = None

    @property
    def live(self) -> Call | None:
        """Its telemetry, if commands can be sent there."""
        return self.stream if self.stream is not None and self.stream.is_open else None


class Sessions:
    """By client id. `monotonic` gives seconds."""

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        self._most = most
        self._monotonic = monotonic
        self._table: dict[str, Session] = {}
        self._turn = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._table.values()))

    def get(self, client_id: str) -> Session | None:
        """The client of this id, if it is there."""
        return self._table.get(client_id)

    def seen(self, caller: Caller) -> Session:
        """A client gave a sign of life. Raises Refusal for an id of another user, and when there are too many."""
        session = self._table.get(caller.client_id)
        if session is None:
            if len(self._table) >= self._most:
                self.refused += 1
                raise Refusal(
                    Code.TOO_MANY_REQUESTS,
                    f"{len(self._table)} clients are here, the limit grpcMaxClients: try again when some left",
                )
            session = self._table[caller.client_id] = Session(caller, self._monotonic())
            return session
        if session.caller.user != caller.user:
            raise Refusal(Code.UNAUTHORIZED, f"the client id {caller.client_id} belongs to a client of another user")
        session.caller = caller
        session.seen_at = self._monotonic()
        return session

    def drop(self, client_id: str) -> Session | None:
        """A client has left."""
        return self._table.pop(client_id, None)

    def silent(self) -> list[Session]:
        """Those who gave no sign of life for too long."""
        limit = self._monotonic() - SILENCE
        return [session for session in self._table.values() if session.seen_at < limit]

    def producer(
        self, topic: str, client_id: str = "", may: Callable[[Caller], bool] = lambda _caller: True
    ) -> Session | None:
        """Somebody to ask about a message of a topic: this client if it is there, else one of the others in turn.

        Only who `may` see messages of the topic is asked.
        """
        wanted = self._table.get(client_id)
        if wanted is not None and wanted.live and topic in wanted.profile.topics and may(wanted.caller):
            return wanted
        able = [each for each in self._table.values() if each.live and topic in each.profile.topics]
        return self._any([each for each in able if may(each.caller)])

    def member(self, group: str) -> Session | None:
        """Some member of a consumer group that can be asked, each in turn."""
        return self._any([each for each in self._table.values() if each.live and each.profile.group == group])

    def _any(self, able: list[Session]) -> Session | None:
        self._turn += 1
        return able[self._turn % len(able)] if able else None
