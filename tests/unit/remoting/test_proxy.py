"""PROXY headers of both versions, in whatever pieces they arrive."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.remoting.accept.proxyheader import V2_SIGNATURE, ProxyReader
from pyromq.remoting.address import Address
from pyromq.remoting.errors import ProxyHeaderError

V4 = socket.inet_aton("203.0.113.7") + socket.inet_aton("10.0.0.1") + struct.pack(">HH", 40000, 10911)
V6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "::1")
    + struct.pack(">HH", 40000, 10911)
)


def binary(version_command: int, family: int, tail: bytes) -> bytes:
    return V2_SIGNATURE + struct.pack(">BBH", version_command, family, len(tail)) + tail


GOOD = {
    b"PROXY TCP4 203.0.113.7 10.0.0.1 40000 10911\r\n": Address("203.0.113.7", 40000),
    b"PROXY TCP6 2001:db8::7 ::1 40000 10911\r\n": Address("2001:db8::7", 40000),
    b"PROXY TCP6 ::ffff:203.0.113.7 ::1 40000 10911\r\n": Address("203.0.113.7", 40000),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN whatever else\r\n": None,
    binary(0x21, 0x11, V4): Address("203.0.113.7", 40000),
    binary(0x21, 0x11, V4 + b"\x04\x00\x01x"): Address("203.0.113.7", 40000),
    binary(0x21, 0x21, V6): Address("2001:db8::7", 40000),
    binary(0x20, 0x00, b""): None,
    binary(0x20, 0x11, V4): None,
    binary(0x21, 0x31, b"x" * 216): None,
}


@pytest.mark.parametrize("header", GOOD)
def test_good_headers_at_every_cut(header: bytes) -> None:
    rest = b"\x16\x03\x01 the client's own bytes"
    for cut in range(len(header) + 1):
        reader = ProxyReader()
        taken = reader.take(header[:cut])
        assert taken == cut
        assert reader.done == (cut == len(header))
        assert reader.take(header[cut:] + rest) == len(header) - cut
        assert reader.done
        assert reader.source == GOOD[header]


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 203.0.113.7 10.0.0.1 40000 10911\n",
        b"PROXY TCP4 203.0.113.700 10.0.0.1 40000 10911\r\n",
        b"PROXY TCP4 ::1 10.0.0.1 40000 10911\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.1 70000 10911\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.1 x 10911\r\n",
        b"PROXY TCP4 203.0.113.7\r\n",
        b"PROXY \xff\xfe\r\n",
        b"PROXY\r\n",
        b"POST / HTTP/1.1\r\n",
        b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
        b"PROXY UNKNOWN " + b"x" * 200,
        binary(0x31, 0x11, V4),
        binary(0x22, 0x11, V4),
        binary(0x21, 0x11, V4[:-1]),
        V2_SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 65535),
        b"\r\n\r\n\x00\r\nQUIX\n" + b"x" * 20,
    ],
)
def test_bad_headers(header: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        ProxyReader().take(header)


@given(st.sampled_from([b"P", b"\r", b"PROXY ", b"PROXY TCP4 ", V2_SIGNATURE, V2_SIGNATURE + b"\x21"]), st.binary())
def test_any_bytes_are_taken_or_refused(start: bytes, rest: bytes) -> None:
    reader = ProxyReader()
    try:
        taken = reader.take(start + rest)
    except ProxyHeaderError:
        return
    assert taken == len(start + rest) or reader.done
