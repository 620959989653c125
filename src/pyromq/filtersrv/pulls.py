"""PULL_MESSAGE at a filter server: pull from the broker for the same group, keep what its class wants.

Apache's filter server pulls as FILTERSRV_CONSUMER, whoever asks, so that a group the broker keeps from consuming still
gets messages. In the group's own name the broker checks what it checks for everybody.
"""

from collections.abc import Awaitable, Callable

from pyromq.filtersrv.config import FilterServerConfig
from pyromq.filtersrv.errors import JailError, RequestRefused
from pyromq.filtersrv.filters import FilterClasses, UploadedClass, failed
from pyromq.filtersrv.records import batches
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import SUSPEND, PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.requests import NOTHING_PULLED, pull_messages
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import RemotingError

SHORTER_MS = 1_000
MAX_HOLD_MS = 120_000
MAX_MESSAGES = 1_024
CALL_GRACE = 10.0

CallBroker = Callable[[Command, float], Awaitable[Command]]


class FilteredPulls:
    """Serves consumers whose subscription names a class."""

    def __init__(self, config: FilterServerConfig, classes: FilterClasses, call_broker: CallBroker) -> None:
        self._config = config
        self._classes = classes
        self._call_broker = call_broker

    async def serve(self, request: Command, _connection: Connection) -> Command:
        """Raises RequestRefused."""
        header = request.header(PullMessageHeader)
        uploaded = self._classes.get(header.topic, header.consumer_group)
        hold = min(max(header.suspend_timeout_millis - SHORTER_MS, 0), MAX_HOLD_MS) if header.sys_flag & SUSPEND else 0
        response = await self._pull(header, hold)
        if response.code != ResponseCode.SUCCESS and response.code not in NOTHING_PULLED:
            return request.reply(response.code, remark=response.remark)
        found = response.header(PullMessageResponseHeader)
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=0,
            next_begin_offset=found.next_begin_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            offset_delta=found.offset_delta,
        )
        if response.code != ResponseCode.SUCCESS:
            return request.reply(response.code, answer, remark=response.remark)
        body = await self._filter(uploaded, response.body)
        if not body:
            return request.reply(ResponseCode.PULL_RETRY_IMMEDIATELY, answer, remark="the filter class wants none")
        return request.reply(ResponseCode.SUCCESS, answer, remark="FOUND", body=body)

    async def _pull(self, header: PullMessageHeader, hold_ms: int) -> Command:
        pull = pull_messages(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.queue_offset,
            min(header.max_msg_nums, MAX_MESSAGES),
            hold_ms=hold_ms,
            max_bytes=header.max_msg_bytes,
        )
        try:
            return await self._call_broker(pull, hold_ms / 1000 + CALL_GRACE)
        except RemotingError as error:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"the filter server cannot pull from its broker: {error}"
            ) from error

    async def _filter(self, uploaded: UploadedClass, body: bytes | bytearray | memoryview) -> bytes:
        over, level = self._config.compress_msg_body_over_howmuch, self._config.zip_compress_level
        kept: list[bytes | memoryview] = []
        try:
            for batch in batches(body):
                sound = [candidate for candidate in batch if not candidate.message.damaged]
                decided = await uploaded.match([candidate.seen() for candidate in sound]) if sound else []
                refused = {id(each) for each, passes in zip(sound, decided, strict=True) if not passes}
                kept += [candidate.encode(over, level) for candidate in batch if id(candidate) not in refused]
        except JailError as error:
            raise failed(uploaded, error) from error
        except ProtocolError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the broker's answer cannot be read: {error}") from error
        return b"".join(kept)
