"""Heartbeat, Telemetry and NotifyClientTermination: clients that come, stay and leave."""

from typing import Any

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.served import unary
from pyromq.proxy.clients.profile import known_type
from pyromq.proxy.clients.roster import Roster
from pyromq.proxy.clients.sessions import Session, Sessions
from pyromq.proxy.clients.telemetry import Telemetry
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method
from pyromq.proxy.messages.names import group_name
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType
from pyromq.proxy.status import status


class ClientCalls:
    """Serves what clients say about themselves."""

    def __init__(self, core: Core, sessions: Sessions, roster: Roster, telemetry: Telemetry, renewal: Renewal) -> None:
        self._core = core
        self._sessions = sessions
        self._roster = roster
        self._telemetry = telemetry
        self._renewal = renewal

    def methods(self) -> dict[str, Method]:
        """By path."""
        core, service = self._core, messages.SERVICE
        return {
            f"/{service}/Telemetry": self._telemetry.method(),
            f"/{service}/Heartbeat": unary(
                core, messages.HeartbeatRequest, messages.HeartbeatResponse, self._heartbeat
            ),
            f"/{service}/NotifyClientTermination": unary(
                core,
                messages.NotifyClientTerminationRequest,
                messages.NotifyClientTerminationResponse,
                self._terminate,
            ),
        }

    def drop_silent(self) -> int:
        """Let go of clients that gave no sign of life for too long; how many."""
        silent = self._sessions.silent()
        for session in silent:
            self._drop(session)
        return len(silent)

    async def _heartbeat(self, request: Any, caller: Caller, _call: Call) -> Any:
        session = self._sessions.seen(caller)
        if session.settings is None:
            # The proxy was started after the client: until its settings come again, this is what is known of it.
            session.profile.client_type = known_type(request.client_type)
            if session.profile.client_type is not ClientType.PRODUCER and request.group.name:
                session.profile.group = group_name(caller, request.group)
        await self._roster.tell(session)
        return messages.HeartbeatResponse(status=status())

    def _terminate(self, request: Any, caller: Caller, _call: Call) -> Any:
        if request.group.name:
            group = group_name(caller, request.group)
            self._core.doorkeeper.permit(
                caller, Command.request(RequestCode.UNREGISTER_CLIENT, ext={"consumerGroup": group})
            )
        session = self._sessions.get(caller.client_id)
        if session is not None and session.caller.user == caller.user:
            self._drop(session)
        return messages.NotifyClientTerminationResponse(status=status())

    def _drop(self, session: Session) -> None:
        client_id = session.caller.client_id
        self._sessions.drop(client_id)
        self._renewal.release(client_id)
        self._roster.leave(session)
