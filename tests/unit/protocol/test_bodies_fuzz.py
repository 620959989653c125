"""Damaged bodies: whatever the bytes, decoding returns a body or raises the protocol's own error."""

import random
import zlib
from collections.abc import Callable

import pytest

from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient import loads
from tests.unit.protocol.test_bodies_golden import DEFLATED, GOLDEN, INFLATED, body_class

TOKENS = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"0:", b"-", b"1e999", b"null", b"true", b"NaN", b"\xff", b"\0",
    b'{"$ref":"$"}', b'{"$ref":".."}', b'{"$ref":"$.offsetTable"}', b'"\\ud800"', b"9" * 30, b"[" * 70, b"{0:" * 70,
    b'"{}":', b"{}:", b"1.5", b'"x"', b'"\\u00',
]  # fmt: skip


def damaged(rng: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 1, 2, 5, 20]))
        match rng.randrange(5):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = rng.choice(TOKENS)
            case 2:
                data[at:end] = rng.choice(TOKENS)
            case 3:
                data[at:at] = data[at:end]
            case _:
                data[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(data)


def read(decode: Callable[[bytes], object], raw: bytes) -> bool:
    """Whether `raw` could be read. Any error but BodyError fails the test."""
    try:
        decode(raw)
    except BodyError:
        return False
    return True


@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_damaged_bodies(number: int, long_run: bool) -> None:
    name, text = GOLDEN[number]
    rng = random.Random(number)
    shape = body_class(name)
    outcomes = [read(shape.decode, damaged(rng, text.encode())) for _ in range(20_000 if long_run else 250)]
    assert not all(outcomes)


@pytest.mark.parametrize("name", sorted({name for name, _ in GOLDEN}))
def test_bodies_of_another_kind(name: str) -> None:
    for _, text in GOLDEN:
        read(body_class(name).decode, text.encode())


def test_damaged_registration_streams(long_run: bool) -> None:
    rng = random.Random(9)
    rounds = 50_000 if long_run else 3_000
    for _ in range(rounds):
        read(RegisterBrokerBody.decode, zlib.compress(damaged(rng, INFLATED), 1))
    outcomes = [read(RegisterBrokerBody.decode, damaged(rng, DEFLATED)) for _ in range(rounds)]
    assert not all(outcomes)


def test_random_tokens(long_run: bool) -> None:
    rng = random.Random(7)
    outcomes = []
    for _ in range(200_000 if long_run else 10_000):
        text = b"".join(rng.choices(TOKENS[:12] + TOKENS[22:], k=rng.randint(1, 8)))
        outcomes.append(read(loads, text))
    assert any(outcomes)
    assert not all(outcomes)


def test_random_bytes() -> None:
    rng = random.Random(8)
    for _ in range(5_000):
        read(loads, rng.randbytes(rng.randint(0, 40)))
