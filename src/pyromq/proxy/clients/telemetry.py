"""Telemetry: the stream on which a client sends its settings and answers, and gets its settings and questions.

Every settings command is answered, in order. A client that may not come in gets a command with nothing but a status,
and the stream ends as if all were well: clients show that status. Settings that cannot be end the stream with an error.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

from pyromq.protocol.bodies.clients import CheckClientBody
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.routes import masters
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.served import parsed, refusal_status
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.clients.nonces import Nonces
from pyromq.proxy.clients.profile import Profile, answered, read_settings
from pyromq.proxy.clients.roster import Roster, publication
from pyromq.proxy.clients.sessions import Sessions
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Conversation, GrpcError, GrpcStatus, Talk
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, refused_by, status

log = logging.getLogger(__name__)

TIMEOUT: Final = 3.0
MAX_WAITING: Final = 16
"""Settings of one client that wait for their answers."""
PATIENCE: Final = 5.0
"""Seconds that a client has to say something before it is turned away."""
_SETTLED = (Code.UNAUTHORIZED, Code.TOO_MANY_REQUESTS, Code.CLIENT_ID_REQUIRED)
_BAD_REQUESTS = range(40_000, 50_000)


class Telemetry:
    """Begins the streams of all clients."""

    def __init__(self, core: Core, catalogue: Catalogue, sessions: Sessions, roster: Roster, nonces: Nonces) -> None:
        self.core = core
        self.catalogue = catalogue
        self.sessions = sessions
        self.roster = roster
        self.nonces = nonces
        self.streams = 0

    def method(self) -> Conversation:
        """For the table of the service."""
        return Conversation(self._begin)

    def _begin(self, call: Call) -> Talk:
        try:
            caller = self.core.doorkeeper.caller(call)
        except Refusal as refusal:
            return _Nobody(call, refusal)
        self.streams += 1
        call.on_end(self._ended)
        return Stream(self, call, caller)

    def _ended(self) -> None:
        self.streams -= 1


class Stream:
    """The telemetry of one client."""

    def __init__(self, telemetry: Telemetry, call: Call, caller: Caller) -> None:
        self._telemetry = telemetry
        self._call = call
        self._caller = caller
        self._waiting: deque[Any] = deque()
        self._task: asyncio.Task[None] | None = None
        call.on_end(self._ended)

    def received(self, message: bytes) -> None:
        """A command of the client."""
        command = parsed(messages.TelemetryCommand.FromString, message)
        kind = command.WhichOneof("command")
        if kind == "settings":
            if len(self._waiting) >= MAX_WAITING:
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, f"{MAX_WAITING} settings wait for their answers")
            self._waiting.append(command.settings)
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._settle())
        elif kind in ("thread_stack_trace", "verify_message_result", "verify_message_command"):
            # One client puts the answer to verify_message_command into that field again.
            answer = getattr(command, kind)
            self._telemetry.nonces.answered(self._caller.client_id, answer.nonce, command)

    def closed(self) -> None:
        """The client says nothing more."""
        self._call.finish()

    async def _settle(self) -> None:
        """Answer the settings that wait, one after the other."""
        try:
            while self._waiting and self._call.is_open:
                await self._answer(self._waiting.popleft())
        except Exception as error:  # noqa: BLE001 - whatever it is ends this stream and no other
            self._fail(error)
        finally:
            self._task = None

    async def _answer(self, settings: Any) -> None:
        telemetry, caller = self._telemetry, self._caller
        core = telemetry.core
        profile = read_settings(settings, caller, core.clock())
        for topic in profile.topics:
            core.doorkeeper.permit(caller, publication(topic))
        await self._check_filters(profile)
        session = telemetry.sessions.seen(caller)
        profile.topics |= session.profile.topics
        session.profile, session.settings, session.stream = profile, settings, self._call
        await telemetry.roster.tell(session)
        answer = answered(settings, await self._group(profile))
        self._call.send(messages.TelemetryCommand(status=status(), settings=answer).SerializeToString())

    async def _check_filters(self, profile: Profile) -> None:
        """Have a broker look at SQL, which it alone can read. Raises Refusal."""
        core, caller = self._telemetry.core, self._caller
        for topic, subscription in profile.subscriptions.items():
            route = await core.route(topic) if subscription.expression_type is ExpressionType.SQL92 else None
            if route is None:
                continue
            body = CheckClientBody(
                client_id=caller.client_id, group=profile.group, subscription_data=subscription
            ).encode()
            for broker in sorted(masters(route.broker_datas))[:1]:
                command = Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
                response = await core.ask(caller, broker, command, TIMEOUT)
                if response.code != ResponseCode.SUCCESS:
                    raise refused_by(response)

    async def _group(self, profile: Profile) -> SubscriptionGroupConfig | None:
        if not profile.group:
            return None
        topic = next(iter(profile.subscriptions), "")
        if not topic:
            return SubscriptionGroupConfig(group_name=profile.group)
        return await self._telemetry.catalogue.group(profile.group, topic)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, Refusal) and error.code in _SETTLED:
            turn_away(self._call, error)
            return
        said = refusal_status(error, self._call)
        kind = GrpcStatus.INVALID_ARGUMENT if said.code in _BAD_REQUESTS else GrpcStatus.INTERNAL
        self._call.finish(kind, f"{Code(said.code).name}: {said.message}")

    def _ended(self) -> None:
        if self._task is not None:
            self._task.cancel()
        session = self._telemetry.sessions.get(self._caller.client_id)
        if session is not None and session.stream is self._call:
            session.stream = None


class _Nobody:
    """This end of a stream that is turned away: once its client has said something, or after a while.

    Clients that are still about to write take an end that comes before for an error of the connection.
    """

    def __init__(self, call: Call, refusal: Refusal) -> None:
        self._call = call
        self._refusal = refusal
        timer = asyncio.get_running_loop().call_later(PATIENCE, self.closed)
        call.on_end(timer.cancel)

    def received(self, message: bytes) -> None:  # noqa: ARG002 - whatever it is
        """It hears why."""
        self.closed()

    def closed(self) -> None:
        """It hears why."""
        turn_away(self._call, self._refusal)


def turn_away(call: Call, refusal: Refusal) -> None:
    """End a stream with a status that clients show."""
    call.send(messages.TelemetryCommand(status=status(refusal.code, str(refusal))).SerializeToString())
    call.finish()
