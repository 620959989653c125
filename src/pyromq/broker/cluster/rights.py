"""Who signed a request, and what is theirs while they are connected: client ids and producer groups.

Needed where a request names a client or a group that no rule is about. Without authentication nobody is known, and
everybody may what they ask for, as in Apache's broker. Invariant: a client id has one user as long as one of its
connections lives, and a check of a half message reaches no user who may not send to its topic.
"""

from typing import TYPE_CHECKING

from pyromq.auth.needs import GROUP, PUB, TOPIC, Need
from pyromq.broker.errors import Refused
from pyromq.protocol import names
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.signature import ACCESS_KEY
from pyromq.remoting.connection import Connection

if TYPE_CHECKING:
    from pyromq.auth.guard import Guard


class Rights:
    """Answers for the guard of a broker, if it has one."""

    def __init__(self, guard: "Guard | None" = None) -> None:
        self.guard = guard

    def user_of(self, request: Command) -> str:
        """The user who signed a request that passed the guard; empty without authentication."""
        return "" if self.guard is None else request.ext.get(ACCESS_KEY, "")

    def may_send(self, user: str, host: str, topic: str) -> bool:
        """Whether a user may send to a topic."""
        return self.guard is None or self.guard.may(user, Need(TOPIC, topic, PUB), host)

    def may_produce(self, user: str, host: str, group: str, holder: str) -> bool:
        """Whether a user may have clients in a producer group, which belongs to the `holder`, if there is one.

        Every Java client, also one that only consumes, is in the inner group. gRPC clients have no producer groups: a
        topic stands for the group of all who send to it.
        """
        if self.guard is None or group == names.CLIENT_INNER_PRODUCER_GROUP:
            return True
        if holder and holder != user:
            return any(self.guard.may(user, Need(kind, group, PUB), host) for kind in (GROUP, TOPIC))
        return self.guard.may_some(user, TOPIC, PUB, host)


class ClientIds:
    """Which user a client id belongs to, and over which connections it came."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._connections: dict[str, set[Connection]] = {}
        self._of_connection: dict[Connection, str] = {}

    def __len__(self) -> int:
        return len(self._users)

    def check(self, client_id: str, user: str) -> None:
        """Raise Refused for an id that belongs to another user."""
        if self._users.get(client_id, user) != user:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the client id {client_id} belongs to a connected client of another user: choose another instanceName",
            )

    def claim(self, client_id: str, user: str, connection: Connection) -> None:
        """A client of a user says that this is its id. Raises Refused."""
        self.check(client_id, user)
        known = self._of_connection.get(connection)
        if known == client_id:
            return
        if known is not None:
            self.release(connection)
        self._users[client_id] = user
        self._connections.setdefault(client_id, set()).add(connection)
        self._of_connection[connection] = client_id

    def release(self, connection: Connection) -> None:
        """A connection ended."""
        client_id = self._of_connection.pop(connection, None)
        if client_id is None:
            return
        connections = self._connections[client_id]
        connections.discard(connection)
        if not connections:
            del self._connections[client_id], self._users[client_id]
