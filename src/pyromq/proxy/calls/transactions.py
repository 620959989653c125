"""EndTransaction: commit or roll back. The transaction id says where the half message lies, so any proxy can."""

from typing import Any, Final

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import EndTransactionHeader
from pyromq.protocol.records import sysflag
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.served import unary
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method
from pyromq.proxy.messages.names import topic_name
from pyromq.proxy.messages.transactionid import decode_transaction_id
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, TransactionResolution, TransactionSource
from pyromq.proxy.status import Refusal, refused_by, status

TIMEOUT: Final = 3.0
_ENDS: Final = {
    TransactionResolution.COMMIT: sysflag.COMMIT,
    TransactionResolution.ROLLBACK: sysflag.ROLLBACK,
}


class Transactions:
    """Serves EndTransaction."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def methods(self) -> dict[str, Method]:
        """By path."""
        serve = unary(self._core, messages.EndTransactionRequest, messages.EndTransactionResponse, self._end)
        return {f"/{messages.SERVICE}/EndTransaction": serve}

    async def _end(self, request: Any, caller: Caller, call: Call) -> Any:
        topic = topic_name(caller, request.topic)
        if not request.transaction_id.strip():
            raise Refusal(Code.INVALID_TRANSACTION_ID, "the transaction id is empty: give the one of SendMessage")
        if not request.message_id.strip():
            raise Refusal(Code.ILLEGAL_MESSAGE_ID, "the message id is empty: give the one of the half message")
        place = decode_transaction_id(request.transaction_id)
        end = _ENDS.get(request.resolution)
        if end is None:
            # Not known yet. Brokers do not answer that: they ask again by themselves.
            return messages.EndTransactionResponse(status=status())
        header = EndTransactionHeader(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.commit_log_offset,
            commit_or_rollback=end,
            from_transaction_check=place.checked or request.source == TransactionSource.SOURCE_SERVER_CHECK,
            msg_id=request.message_id,
            transaction_id=request.message_id,
            bname=place.broker_name,
        )
        left = call.remaining()
        command = Command.request(RequestCode.END_TRANSACTION, header)
        response = await self._core.ask(caller, place.broker_name, command, TIMEOUT if left is None else left)
        if response.code != ResponseCode.SUCCESS:
            raise refused_by(response)
        return messages.EndTransactionResponse(status=status())
