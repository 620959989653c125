"""The `authorization` of gRPC clients: an HMAC-SHA1 over the time that the client gives.

`MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, Signature=hex`. Clients write it a little differently: hex
in either case, and a key that is followed by `/` and more. The time is not looked at, since several of them write local
time as if it were UTC.
"""

import hmac
from typing import Final, NamedTuple

ALGORITHM: Final = "MQv2-HMAC-SHA1"
MAX_LENGTH: Final = 4096


class Authorization(NamedTuple):
    """Whose signature it is said to be, and the signature."""

    key: str
    signature: bytes


NOBODY: Final = Authorization("", b"")


def read_authorization(text: str) -> Authorization:
    """What the header says; nobody for one that is missing or cannot be read.

    >>> read_authorization("MQv2-HMAC-SHA1 Credential=ak//Rocketmq, SignedHeaders=x-mq-date-time, Signature=0A")
    Authorization(key='ak', signature=b'\\n')
    """
    algorithm, _, rest = text[:MAX_LENGTH].partition(" ")
    if algorithm != ALGORITHM:
        return NOBODY
    items = {}
    for item in rest.split(","):
        name, _, value = item.strip().partition("=")
        items[name] = value
    try:
        signature = bytes.fromhex(items.get("Signature", ""))
    except ValueError:
        signature = b""
    return Authorization(items.get("Credential", "").partition("/")[0], signature)


def signature_of(date_time: str, secret: str) -> bytes:
    """What a client with this secret signs."""
    return hmac.digest(secret.encode(), date_time.encode(), "sha1")


def is_signed(authorization: Authorization, date_time: str, secret: str) -> bool:
    """Whether the secret made the signature."""
    return hmac.compare_digest(authorization.signature, signature_of(date_time, secret))
