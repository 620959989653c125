"""Field blocks are decoded as RFC 7541 has it, with and without the native core; what is wrong in them is told."""

from collections.abc import Callable

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.proxy.http2.hpack import (
    BlockDecoder,
    CompressionError,
    Decoder,
    Field,
    HeaderListSizeError,
    PythonBlocks,
    encode_headers,
    encode_integer,
)
from tests.unit.proxy.http2.rfc7541 import EXAMPLES

Make = Callable[[int, int], BlockDecoder]

FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b":path", b":method", b"x-mq-client-id", b"authorization", b"te"]) | st.binary(max_size=40),
        st.sampled_from([b"", b"GET", b"trailers"]) | st.binary(max_size=200),
    ),
    max_size=20,
)


@pytest.fixture(params=[Decoder, PythonBlocks], ids=["chosen", "python"])
def make(request: pytest.FixtureRequest) -> Make:
    kind: Make = request.param
    return kind


@pytest.fixture
def decoder(make: Make) -> BlockDecoder:
    return make(4096, 16_384)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_rfc(decoder: BlockDecoder, example: str) -> None:
    for block, fields in EXAMPLES[example]:
        assert decoder.decode(bytes.fromhex(block)) == fields


def test_the_integers_of_the_rfc() -> None:
    # C.1.1, C.1.2, C.1.3
    assert encode_integer(10, 0x1F, 0) == bytes.fromhex("0a")
    assert encode_integer(1337, 0x1F, 0) == bytes.fromhex("1f9a0a")
    assert encode_integer(42, 0xFF, 0) == bytes.fromhex("2a")


@given(st.lists(FIELDS, max_size=6), st.lists(st.integers(0, 8192), min_size=6, max_size=6), st.booleans())
def test_what_clients_encode_is_decoded(lists: list[list[Field]], sizes: list[int], huffman: bool) -> None:
    """With a table that grows and shrinks between the blocks."""
    encoder = hpack.Encoder()
    decoders: list[BlockDecoder] = [Decoder(8192, 1 << 20), PythonBlocks(8192, 1 << 20)]
    for fields, size in zip(lists, sizes, strict=False):
        encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman)
        for decoder in decoders:
            assert decoder.decode(block) == fields


@given(FIELDS)
def test_what_servers_encode_is_decoded(fields: list[Field]) -> None:
    block = encode_headers(fields)
    assert list(hpack.Decoder(1 << 20).decode(block, raw=True)) == fields
    assert Decoder(4096, 1 << 20).decode(block) == fields


def test_constant_heads_are_short() -> None:
    assert encode_headers([(b":status", b"200")]) == b"\x88"
    assert encode_headers([(b":status", b"503")]) == b"\x08\x03503"
    assert encode_headers([(b"content-type", b"application/grpc")]) == b"\x0f\x10\x10application/grpc"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("80", "the table has no entry 0"),
        ("be", "the table has no entry 62"),
        ("7f0f0161", "the table has no entry 78"),
        ("ff", "the block ends within an integer"),
        ("ff80", "the block ends within an integer"),
        ("00", "the block ends within an integer"),
        ("0001", "a string is longer than its block"),
        ("00016103", "a string is longer than its block"),
        ("000161", "the block ends within an integer"),
        ("ffffffffffff7f", "an integer is too long"),
        ("ff808080808000", "an integer is too long"),
        ("3fe21f", "a table of 4097 bytes where 4096 are allowed"),
        ("8220", "a table size update after a field"),
        ("00016184ffffffff", "the Huffman code of a string is broken"),  # EOS
        ("000161821fff", "the Huffman code of a string is broken"),  # "a" and eleven bits of padding
        ("0001618100", "the Huffman code of a string is broken"),  # padding of zeros
    ],
)
def test_what_is_malformed_ends_the_connection(decoder: BlockDecoder, block: str, reason: str) -> None:
    with pytest.raises(CompressionError, match=f"^{reason}$"):
        decoder.decode(bytes.fromhex(block))
    with pytest.raises(CompressionError, match="lost with an earlier block"):
        decoder.decode(b"\x82")


def test_a_list_over_the_limit_leaves_the_table_in_step(make: Make) -> None:
    decoder = make(4096, 200)
    encoder = hpack.Encoder()
    long = [(b"x-first", b"1"), (b"x-long", b"a" * 100), (b"x-last", b"2")]
    with pytest.raises(HeaderListSizeError, match="the header list is over 200 bytes"):
        decoder.decode(encoder.encode(long))
    short = [(b"x-last", b"2"), (b"x-first", b"1")]
    block = encoder.encode(short)
    assert len(block) == 2, "both are in the table"
    assert decoder.decode(block) == short


def test_a_list_at_the_limit_is_taken(make: Make) -> None:
    fields = [(b"x-a", b"1" * 65)]
    assert make(4096, 100).decode(encode_headers(fields)) == fields
    with pytest.raises(HeaderListSizeError):
        make(4096, 99).decode(encode_headers(fields))


def test_a_name_may_be_that_of_the_entry_it_drives_out(decoder: BlockDecoder) -> None:
    first = (b"x" * 2000, b"1" * 2000)
    assert decoder.decode(b"\x40" + b"".join(encode_integer(len(part), 0x7F, 0) + part for part in first)) == [first]
    value = b"2" * 2000
    assert decoder.decode(b"\x7e" + encode_integer(len(value), 0x7F, 0) + value) == [(first[0], value)]
    with pytest.raises(CompressionError, match="no entry 63"):
        decoder.decode(b"\xbe\xbf")


def test_an_entry_larger_than_the_table_empties_it(decoder: BlockDecoder) -> None:
    decoder.decode(bytes.fromhex("4001610162"))
    decoder.decode(b"\x40\x01b" + encode_integer(4096, 0x7F, 0) + b"c" * 4096)
    with pytest.raises(CompressionError, match="no entry 62"):
        decoder.decode(b"\xbe")


@pytest.mark.parametrize(
    ("value", "sound"),
    [
        (b"", True),
        (b"a b\tc", True),
        (b"\xff\x80", True),
        (b" a", False),
        (b"a ", False),
        (b"\ta", False),
        (b"a\t", False),
        (b"a\rb", False),
        (b"a\n", False),
        (b"\0", False),
    ],
)
def test_requests_come_with_their_names_and_whether_values_are_well_formed(
    decoder: BlockDecoder, value: bytes, sound: bool
) -> None:
    fields = [(b":method", b"POST"), (b"x-value", value)]
    encoder = hpack.Encoder()
    for _ in range(2):
        # The second one is from the table.
        assert decoder.decode_request(encoder.encode(fields)) == (fields, (b":method", b"x-value"), sound)


def test_a_table_is_not_smaller_than_clients_assume() -> None:
    with pytest.raises(ValueError, match="4096 bytes at least, not 1024"):
        Decoder(1024)
