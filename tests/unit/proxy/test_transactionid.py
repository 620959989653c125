"""Transaction ids come back as they were made, and nothing else is taken for one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.proxy.messages.transactionid import TransactionId, decode_transaction_id, encode_transaction_id
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

OFFSETS = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(exclude_characters=" ", codec="utf-8"), min_size=1, max_size=100)


@given(NAMES, OFFSETS, OFFSETS, st.booleans())
def test_an_id_says_what_it_was_made_of(broker: str, queue_offset: int, place: int, checked: bool) -> None:
    transaction = TransactionId(broker, queue_offset, place, checked)
    assert decode_transaction_id(encode_transaction_id(transaction)) == transaction


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0A00000100002A9F000000000001E240",
        "x" * 5000,
        *(
            base64.urlsafe_b64encode(text).decode()
            for text in (
                b"2 b 1 2 s",
                b"1  1 2 s",
                b"1 b -1 2 s",
                b"1 b 1 9223372036854775808 s",
                b"1 b 1 2 x",
                b"1 b 1 2",
                b"\xff",
            )
        ),
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        decode_transaction_id(text)
    assert refused.value.code is Code.INVALID_TRANSACTION_ID
