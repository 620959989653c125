"""Both decoders of field blocks, given those of one connection: the same fields, the same errors, the same tables."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq import native
from pyromq.errors import PyroMQError
from pyromq.proxy.http2.hpack import (
    BlockDecoder,
    CompressionError,
    Decoder,
    Field,
    HeaderListSizeError,
    PythonBlocks,
    Request,
    encode_integer,
)
from tests.unit.native.twins import needs_core

NAMES = st.sampled_from([b":path", b":status", b"te", b"x-mq-client-id", b"content-type"]) | st.binary(max_size=12)
VALUES = st.sampled_from([b"", b"/", b"200", b"trailers", b" ", b"a\tb", b"a\r", b"\0"]) | st.binary(max_size=80)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)
INTEGERS = st.integers(0, 80) | st.integers(0, 10_000) | st.integers(0, 1 << 40)


def string(packed: bool) -> st.SearchStrategy[bytes]:
    """A string of a block; most octets are no Huffman code, so those claimed to be one often are none."""
    flag = 0x80 if packed else 0
    return st.binary(max_size=20).map(lambda text: encode_integer(len(text), 0x7F, flag) + text)


STRINGS = string(False) | string(True)
PARTS = st.one_of(
    st.builds(lambda index: encode_integer(index, 0x7F, 0x80), INTEGERS),
    st.builds(lambda index, value: encode_integer(index, 0x3F, 0x40) + value, INTEGERS, STRINGS),
    st.builds(lambda index, value: encode_integer(index, 0x0F, 0x00) + value, INTEGERS, STRINGS),
    st.builds(lambda name, value: b"\x40" + name + value, STRINGS, STRINGS),
    st.builds(lambda name, value: b"\x10" + name + value, STRINGS, STRINGS),
    st.builds(lambda size: encode_integer(size, 0x1F, 0x20), INTEGERS),
    st.binary(max_size=4),
)
"""Pieces of blocks in good shape, and some that are not."""


def seen(decoder: BlockDecoder, block: bytes) -> Request | tuple[type[Exception], str]:
    try:
        return decoder.decode_request(block)
    except PyroMQError as error:
        return type(error), str(error)


def compared(blocks: list[bytes], max_list_size: int = 400) -> None:
    chosen, python = Decoder(4096, max_list_size), PythonBlocks(4096, max_list_size)
    for block in blocks:
        assert seen(chosen, block) == seen(python, block)
    plain = Decoder(4096, max_list_size), PythonBlocks(4096, max_list_size)
    for block in blocks:
        assert _list(plain[0], block) == _list(plain[1], block)


def _list(decoder: BlockDecoder, block: bytes) -> list[Field] | str:
    try:
        return decoder.decode(block)
    except PyroMQError as error:
        return str(error)


@needs_core
@given(st.lists(st.lists(PARTS, max_size=8).map(b"".join), max_size=8))
def test_blocks_of_any_parts(blocks: list[bytes]) -> None:
    compared(blocks)


@needs_core
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_blocks_of_any_bytes(blocks: list[bytes]) -> None:
    compared(blocks)


@needs_core
@given(st.lists(FIELDS, min_size=1, max_size=5), st.data())
def test_blocks_of_clients_with_damage(lists: list[list[Field]], data: st.DataObject) -> None:
    encoder = hpack.Encoder()
    blocks = []
    for fields in lists:
        block = bytearray(encoder.encode(fields))
        if block and data.draw(st.booleans()):
            block[data.draw(st.integers(0, len(block) - 1))] ^= data.draw(st.integers(1, 255))
        blocks.append(bytes(block))
    compared(blocks)


@needs_core
def test_the_tables_hold_the_same_text() -> None:
    """Each entry of the static table, and each code of the Huffman code."""
    compared([encode_integer(index, 0x7F, 0x80) for index in range(1, 62)])
    for octet in range(256):
        compared([hpack.Encoder().encode([(b"x", bytes([octet] * 3))])])


class Broken:
    """A decoder that panics."""

    def decode(self, block: bytes) -> list[Field]:
        native.core.module.panic(f"on purpose, at {block!r}")
        return []

    def decode_request(self, block: bytes) -> Request:
        return self.decode(block), (), True


@needs_core
def test_a_fault_of_the_core_is_an_error_of_that_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.core, "faults", 0)
    decoder = Decoder()
    decoder._blocks = Broken()
    with pytest.raises(native.NativeCoreError, match="on purpose"):
        decoder.decode(b"\x82")
    with pytest.raises(native.NativeCoreError, match="on purpose"):
        decoder.decode_request(b"\x82")


@needs_core
def test_the_core_is_what_decodes() -> None:
    assert type(Decoder()._blocks) is native.core.module.HpackDecoder
    with pytest.raises(CompressionError):
        Decoder().decode(b"\x80")
    with pytest.raises(HeaderListSizeError):
        Decoder(4096, 1).decode(b"\x82")


def test_without_the_core_python_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.core, "on", False)
    assert type(Decoder()._blocks) is PythonBlocks
