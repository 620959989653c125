"""Bits of a message's system flag, which the protocol owns. The user's own integer is `Message.flag`, another field."""

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_MASK: Final = 0xC
NOT_TRANSACTIONAL: Final = 0x0
PREPARED: Final = 0x4
COMMIT: Final = 0x8
ROLLBACK: Final = 0xC

BORN_V6: Final = 0x10
STORE_V6: Final = 0x20
HOSTS_MASK: Final = BORN_V6 | STORE_V6
HOSTS_SHIFT: Final = 4

NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
WRAPPED_BATCH: Final = NEED_UNWRAP | INNER_BATCH

COMPRESSION_MASK: Final = 0x700
COMPRESSION_SHIFT: Final = 8


def transaction_type(flag: int) -> int:
    """NOT_TRANSACTIONAL, PREPARED, COMMIT or ROLLBACK."""
    return flag & TRANSACTION_MASK


def with_transaction_type(flag: int, kind: int) -> int:
    """The flag with its transaction bits replaced by `kind`."""
    return flag & ~TRANSACTION_MASK | kind


def with_hosts(flag: int, *, born_v6: bool, store_v6: bool) -> int:
    """The flag with both address bits set from the addresses that are really written, on or off.

    A bit left over from a client or from a copied record beside a 4-byte address makes the record unreadable.
    """
    return flag & ~HOSTS_MASK | (BORN_V6 if born_v6 else 0) | (STORE_V6 if store_v6 else 0)


def is_wrapped_batch(flag: int) -> bool:
    """Whether the body is an inner batch that a consumer has to unwrap."""
    return flag & WRAPPED_BATCH == WRAPPED_BATCH
