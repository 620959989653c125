"""Answers to sends, written in one step, are what the general way would have written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.headers.sendreply import SendReplies

INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(INTS, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), TEXTS, TEXTS, st.booleans())
def test_it_is_what_encoding_a_reply_gives(
    opaque: int, queue_id: int, queue_offset: int, unique_key: str, region: str, trace_on: bool
) -> None:
    request = Command.request(RequestCode.SEND_MESSAGE_V2, opaque=opaque)
    header = SendMessageResponseHeader(
        msg_id="7F00000100002A9F0000000000000000",
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=unique_key,
        msg_region=region,
        trace_on=trace_on,
    )
    frame = SendReplies(region, trace_on=trace_on).frame(opaque, header.msg_id, queue_id, queue_offset, unique_key)
    assert frame == encode(request.reply(header=header))


@pytest.mark.parametrize("ids", ["7F00000100002A9F0000000000000000,7F00000100002A9F00000000000000B0", ""])
def test_ids_of_a_batch_are_written_as_they_are(ids: str) -> None:
    assert f'"msgId":"{ids}"'.encode() in SendReplies("r", trace_on=True).frame(1, ids, 0, 0, "key")
