"""The answer to a send as one frame, without the objects in between: brokers write hardly anything more often.

Invariant: byte for byte what encoding a `SendMessageResponseHeader` in a reply gives, which a test holds.
"""

import struct
from json.encoder import encode_basestring_ascii as quote

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RESPONSE_FLAG
from pyromq.protocol.headers.sendrun import Parts, binary_field
from pyromq.protocol.release import CURRENT, Language

_pack_words = struct.Struct(">II").pack
_END = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT}}}'
# code, language, version
_BINARY_START = struct.pack(">hBh", ResponseCode.SUCCESS, Language.PYTHON, CURRENT)


class SendReplies:
    """Writes answers that say SUCCESS to requests with JSON headers, for one region and trace switch."""

    __slots__ = ("_middle", "parts")

    def __init__(self, region: str, *, trace_on: bool) -> None:
        trace = "true" if trace_on else "false"
        self._middle = (
            f',"MSG_REGION":{quote(region)},"TRACE_ON":"{trace}"}},"flag":{RESPONSE_FLAG},'
            f'"language":"{Language.PYTHON.name}","opaque":'
        )
        tail = binary_field("MSG_REGION", region) + binary_field("TRACE_ON", trace)
        self.parts: Parts = self._middle.encode(), _END.encode(), _BINARY_START, tail
        """For the answers to a run of sends."""

    def frame(self, opaque: int, message_id: str, queue_id: int, queue_offset: int, transaction_id: str) -> bytes:
        """One answer. The message id must be plain letters and digits."""
        text = (
            f'{{"code":{_SUCCESS},"extFields":{{"msgId":"{message_id}","queueId":"{queue_id}",'
            f'"queueOffset":"{queue_offset}","transactionId":{quote(transaction_id)}{self._middle}{opaque}{_END}'
        )
        length = len(text)
        return _pack_words(4 + length, length) + text.encode()


_SUCCESS = int(ResponseCode.SUCCESS)
