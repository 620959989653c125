"""Bits of the system flag."""

from pyromq.protocol.records import sysflag


# P-14
def test_bit_values() -> None:
    assert (sysflag.COMPRESSED, sysflag.MULTI_TAGS) == (0x1, 0x2)
    transaction = (
        sysflag.NOT_TRANSACTIONAL,
        sysflag.PREPARED,
        sysflag.COMMIT,
        sysflag.ROLLBACK,
        sysflag.TRANSACTION_MASK,
    )
    assert transaction == (0, 0x4, 0x8, 0xC, 0xC)
    assert (sysflag.BORN_V6, sysflag.STORE_V6) == (0x10, 0x20)
    assert (sysflag.NEED_UNWRAP, sysflag.INNER_BATCH) == (0x40, 0x80)
    assert sysflag.COMPRESSION_MASK == 0x700


def test_transaction_type() -> None:
    assert sysflag.transaction_type(0x3F5) == sysflag.PREPARED
    assert sysflag.with_transaction_type(0x305, sysflag.COMMIT) == 0x309
    assert sysflag.with_transaction_type(0x30D, sysflag.NOT_TRANSACTIONAL) == 0x301


def test_hosts_are_switched_on_and_off() -> None:
    assert sysflag.with_hosts(0x31, born_v6=False, store_v6=False) == 0x1
    assert sysflag.with_hosts(0x1, born_v6=True, store_v6=False) == 0x11
    assert sysflag.with_hosts(0x11, born_v6=False, store_v6=True) == 0x21


def test_wrapped_batch_needs_both_bits() -> None:
    assert sysflag.is_wrapped_batch(0xC1)
    assert not sysflag.is_wrapped_batch(0x81)
    assert not sysflag.is_wrapped_batch(0x41)
