"""`Receipt`: what consumers name a message by that they were given. The words of a pop handle, and one more.

The last word is the place of the record in the log, by which a broker finds a message that is to be a dead letter.
"""

import msgspec

from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.pop import PopHandle, real_topic
from pyromq.protocol.headers.pop import ChangeMessageInvisibletimeResponseHeader
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

_WORDS = 8
_MAX_LONG = 2**63 - 1


class Receipt(msgspec.Struct, frozen=True):
    """A popped message; `physical_offset` is -1 when the handle does not say it."""

    handle: PopHandle
    physical_offset: int = -1

    def encode(self) -> str:
        """The text that clients get."""
        return f"{self.handle.encode()} {self.physical_offset}"

    @classmethod
    def decode(cls, text: str) -> "Receipt":
        """Raises Refusal for what is none: clients give up on it, which for any other code they would not."""
        words = text.split(" ")
        try:
            handle = PopHandle.decode(text)
            place = int(words[_WORDS]) if len(words) > _WORDS else -1
        except (MessageError, ValueError) as error:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, str(error)) from None
        if not 0 <= handle.start_offset <= handle.queue_offset or place > _MAX_LONG:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, f"{text[:80]!r} names no message")
        return cls(handle, place)

    def check_due(self, now: int) -> None:
        """Raises Refusal when the message is visible again: it is somebody else's by now."""
        if self.handle.due <= now:
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE,
                f"the time of this receipt handle was over {now - self.handle.due} ms ago; the message comes again",
            )

    def stored_topic(self, topic: str, group: str) -> str:
        """Where the message lies that was received from a topic."""
        return real_topic(topic, group, self.handle.retry_flag)

    def renewed(self, answer: ChangeMessageInvisibletimeResponseHeader) -> "Receipt":
        """The one that takes its place once the time was changed."""
        handle = msgspec.structs.replace(
            self.handle,
            start_offset=self.handle.queue_offset,
            pop_time=answer.pop_time,
            invisible_time=answer.invisible_time,
            revive_queue=answer.revive_qid,
        )
        return Receipt(handle, self.physical_offset)
