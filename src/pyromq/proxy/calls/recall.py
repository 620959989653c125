"""RecallMessage: take back a delayed message before it is delivered."""

from typing import Any

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.handles.recall import decode_recall_handle
from pyromq.protocol.headers.send import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.deadline import seconds_left
from pyromq.proxy.calls.served import unary
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method
from pyromq.proxy.messages.names import topic_name
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, refused_by, status


class Recalls:
    """Serves RecallMessage; the handle says which broker keeps the message."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def methods(self) -> dict[str, Method]:
        """By path."""
        serve = unary(self._core, messages.RecallMessageRequest, messages.RecallMessageResponse, self._recall)
        return {f"/{messages.SERVICE}/RecallMessage": serve}

    async def _recall(self, request: Any, caller: Caller, call: Call) -> Any:
        topic = topic_name(caller, request.topic)
        try:
            handle = decode_recall_handle(request.recall_handle)
        except ValidationError as error:
            raise Refusal(Code.BAD_REQUEST, str(error)) from None
        header = RecallMessageHeader(
            producer_group=topic, topic=topic, recall_handle=request.recall_handle, bname=handle.broker_name
        )
        command = Command.request(RequestCode.RECALL_MESSAGE, header)
        response = await self._core.ask(caller, handle.broker_name, command, seconds_left(call))
        if response.code == ResponseCode.ILLEGAL_OPERATION:
            raise Refusal(Code.BAD_REQUEST, response.remark or "it is too late to take this message back")
        if response.code != ResponseCode.SUCCESS:
            raise refused_by(response)
        message_id = response.header(RecallMessageResponseHeader).msg_id
        return messages.RecallMessageResponse(status=status(), message_id=message_id)
