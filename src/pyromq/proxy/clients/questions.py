"""What brokers ask of clients: passed on to their telemetry, or answered in their place where that is enough.

On a connection of one client the question is for that client. Brokers behind a proxy know nobody but the proxy: there
any member of the group answers. How a transaction ended any producer of the topic can tell.
"""

import logging
from collections.abc import Callable
from typing import Any

from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerRunningInfo
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.bodies.offsets import ConsumerStatusBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.namespace import unwrap
from pyromq.protocol.records.record import decode_record
from pyromq.proxy.caller import Caller
from pyromq.proxy.clients.nonces import Nonces
from pyromq.proxy.clients.roster import consume_type, publication
from pyromq.proxy.clients.sessions import Session, Sessions
from pyromq.proxy.messages.delivery import fill
from pyromq.proxy.messages.transactionid import TransactionId, encode_transaction_id
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

log = logging.getLogger(__name__)

_RESULTS = {Code.OK: ConsumeResult.CR_SUCCESS, Code.FAILED_TO_CONSUME_MESSAGE: ConsumeResult.CR_LATER}


class Questions:
    """`clock` gives Unix milliseconds; `may` tells whether a client's user may have something asked."""

    def __init__(
        self, sessions: Sessions, nonces: Nonces, clock: Callable[[], int], may: Callable[[Caller, Command], bool]
    ) -> None:
        self._sessions = sessions
        self._nonces = nonces
        self._clock = clock
        self._may = may
        self.checks = 0
        """Checks of transactions that were passed on."""

    def handlers(self) -> dict[int, Handler]:
        """By request code, for connections to brokers."""
        return {
            RequestCode.CHECK_TRANSACTION_STATE: self._check,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: _no_offsets,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: _ignored,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: _ignored,
        }

    def _check(self, request: Command, connection: Connection) -> None:
        """Ask a producer how a transaction ended; it answers by EndTransaction. Without one the broker asks again."""
        header = request.header(CheckTransactionStateHeader)
        message = decode_record(request.body)
        sends = publication(message.topic)
        session = self._sessions.producer(
            message.topic, _client_of(connection), lambda caller: self._may(caller, sends)
        )
        stream = session.live if session is not None else None
        if session is None or stream is None:
            log.info("nobody is there to tell how the transaction of message %s ended", message.message_id)
            return
        if not header.bname:
            log.warning("%s does not say its name, so its transactions cannot be ended", connection.peer)
            return
        place = TransactionId(header.bname, header.tran_state_table_offset, header.commit_log_offset, checked=True)
        command = messages.TelemetryCommand()
        recover = command.recover_orphaned_transaction_command
        recover.transaction_id = encode_transaction_id(place)
        fill(recover.message, message, _resource(session.caller, message.topic))
        stream.send(command.SerializeToString())
        self.checks += 1

    async def _running_info(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerRunningInfoHeader)
        try:
            session = self._find(connection, header.consumer_group)
            info = ConsumerRunningInfo(
                properties=_properties(session), subscription_set=list(session.profile.subscriptions.values())
            )
            if header.jstack_enable:
                nonce = self._nonces.open(session.caller.client_id)
                command = messages.PrintThreadStackTraceCommand(nonce=nonce)
                answer = await self._ask(
                    session, nonce, messages.TelemetryCommand(print_thread_stack_trace_command=command)
                )
                info.jstack = answer.thread_stack_trace.thread_stack_trace
        except Refusal as refusal:
            return _refused(request, refusal)
        return request.reply(body=info.encode())

    async def _consume(self, request: Command, connection: Connection) -> Command:
        """Have a client consume one message now, and tell how that ended."""
        header = request.header(ConsumeMessageDirectlyHeader)
        try:
            message = decode_record(request.body)
            session = self._find(connection, header.consumer_group)
            nonce, began = self._nonces.open(session.caller.client_id), self._clock()
            command = messages.TelemetryCommand()
            command.verify_message_command.nonce = nonce
            fill(command.verify_message_command.message, message, _resource(session.caller, message.topic))
            answer = await self._ask(session, nonce, command)
        except Refusal as refusal:
            return _refused(request, refusal)
        except PyroMQError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        result = _RESULTS.get(answer.status.code)
        if result is None:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=f"the client answered {_said(answer.status)}")
        spent = self._clock() - began
        body = ConsumeDirectlyResult(consume_result=result, remark=answer.status.message, spent_time_mills=spent)
        return request.reply(body=body.encode())

    def _find(self, connection: Connection, group: str) -> Session:
        """The client that a question is for. Raises Refusal when it is not there."""
        client_id = _client_of(connection)
        session = self._sessions.get(client_id) if client_id else self._sessions.member(group)
        if session is None:
            raise Refusal(Code.NOT_FOUND, f"no client of group {group} is connected here that could be asked")
        return session

    async def _ask(self, session: Session, nonce: str, command: Any) -> Any:
        """The command that a client answers with. Raises Refusal."""
        client_id, stream = session.caller.client_id, session.live
        if stream is not None:
            stream.send(command.SerializeToString())
            return await self._nonces.answer(client_id, nonce)
        self._nonces.forget(client_id, nonce)
        raise Refusal(Code.NOT_FOUND, f"client {client_id} has no telemetry open, so it cannot be asked")


def _client_of(connection: Connection) -> str:
    """The client whose connection it is; empty on one of the proxy's own."""
    return connection.context if isinstance(connection.context, str) else ""


def _resource(caller: Caller, topic: str) -> Any:
    """A topic by the name that the client has for it."""
    namespace = caller.namespace
    return messages.Resource(resource_namespace=namespace, name=unwrap(topic, namespace) if namespace else topic)


def _properties(session: Session) -> dict[str, str]:
    caller, settings = session.caller, session.settings
    known = dict(settings.client_properties) if settings is not None else {}
    return known | {
        "PROP_CLIENT_VERSION": caller.version,
        "PROP_CONSUME_TYPE": str(consume_type(session.profile)),
        "PROP_CLIENT_LANGUAGE": caller.language,
        "PROP_CLIENT_TYPE": session.profile.client_type.name,
    }


def _said(status: Any) -> str:
    name = Code(status.code).name if status.code in Code.__members__.values() else str(status.code)
    return f"{name} {status.message}".rstrip()


def _refused(request: Command, refusal: Refusal) -> Command:
    late = refusal.code is Code.REQUEST_TIMEOUT
    return request.reply(ResponseCode.CONSUME_MSG_TIMEOUT if late else ResponseCode.SYSTEM_ERROR, remark=str(refusal))


def _no_offsets(request: Command, _connection: Connection) -> Command:
    """gRPC clients keep no offsets."""
    return request.reply(body=ConsumerStatusBody().encode())


def _ignored(request: Command, _connection: Connection) -> Command | None:
    """Brokers share out messages themselves among gRPC clients, so these have nothing to do then."""
    return None if request.is_oneway else request.reply()
