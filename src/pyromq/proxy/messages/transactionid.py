"""Transaction ids: they say where the half message lies, so that any proxy in front of a cluster can end a transaction.

URL-safe base64 of `1 brokerName queueOffset commitLogOffset source`, separated by blanks; no proxy keeps a table.
"""

import base64
from typing import Final

import msgspec

from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

_VERSION: Final = "1"
_SENT: Final = "s"
_CHECKED: Final = "c"
# Longer than any broker name and two numbers.
_MAX_LENGTH: Final = 1024
_MAX_LONG: Final = 2**63 - 1


class TransactionId(msgspec.Struct, frozen=True):
    """Where a half message lies. `checked` when the broker asked for its outcome.

    Some clients do not say whether they answer such a check, which brokers want to know, so the id says it.
    """

    broker_name: str
    queue_offset: int
    commit_log_offset: int
    checked: bool = False


def encode_transaction_id(transaction: TransactionId) -> str:
    """The text form, for the answer to a send and for a check."""
    source = _CHECKED if transaction.checked else _SENT
    text = f"{_VERSION} {transaction.broker_name} {transaction.queue_offset} {transaction.commit_log_offset} {source}"
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_transaction_id(text: str) -> TransactionId:
    """Read an id. Raises Refusal (INVALID_TRANSACTION_ID) for anything that is none.

    >>> decode_transaction_id("MSBiIDcgNDA5NiBz")
    TransactionId(broker_name='b', queue_offset=7, commit_log_offset=4096, checked=False)
    """
    try:
        raw = base64.b64decode(text[:_MAX_LENGTH] + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        version, broker, queue_offset, commit_log_offset, source = raw.decode().split(" ")
        offsets = _number(queue_offset), _number(commit_log_offset)
    except ValueError as error:
        raise _invalid(text, str(error)) from None
    if version != _VERSION or not broker or source not in (_SENT, _CHECKED):
        raise _invalid(text, "it was not made by a proxy of this kind")
    return TransactionId(broker, *offsets, source == _CHECKED)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text[:20]!r} is no offset")
    number = int(text)
    if number > _MAX_LONG:
        raise ValueError(f"{text[:20]} is too large for an offset")
    return number


def _invalid(text: str, why: str) -> Refusal:
    return Refusal(
        Code.INVALID_TRANSACTION_ID,
        f"{text[:80]!r} is no transaction id ({why}); give the one that SendMessage returned",
    )
