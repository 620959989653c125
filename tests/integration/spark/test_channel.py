"""The blocking connection of Spark's tasks: answers of any size, in whatever pieces they arrive."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import FrameError
from pyromq.remoting.errors import ConnectionLost
from pyromq.spark.net.channel import RECEIVE, Channel

LIMIT = 60.0
SIZES = [0, 10, RECEIVE - 200, RECEIVE, 3 * RECEIVE + 7, 1, 5 * RECEIVE, 5 * RECEIVE]


def answer(opaque: int, size: int) -> bytes:
    asked = Command.request(RequestCode.PULL_MESSAGE, opaque=opaque)
    return encode(asked.reply(body=bytes([opaque]) * size))


@contextmanager
def answering(pieces: Sequence[bytes]) -> Iterator[Channel]:
    """A channel to a server that says this and closes, with a request under way for every number."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in pieces:
                    peer.sendall(piece)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(RECEIVE):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        channel = Channel(f"127.0.0.1:{server.getsockname()[1]}", None, time.monotonic)
        try:
            for number in range(1, len(SIZES) + 1):
                channel.send(Command.request(RequestCode.PULL_MESSAGE, opaque=number), LIMIT)
            yield channel
        finally:
            channel.close()
            thread.join(LIMIT)


@pytest.mark.parametrize("step", [1 << 30, 1000, RECEIVE, 100_003])
def test_answers_of_any_size(step: int) -> None:
    stream = b"".join(answer(number, size) for number, size in enumerate(SIZES, start=1))
    with answering([stream[at : at + step] for at in range(0, len(stream), step)]) as channel:
        for number, size in enumerate(SIZES, start=1):
            found = channel.receive(LIMIT)
            assert found.opaque == number
            assert bytes(found.body) == bytes([number]) * size
        with pytest.raises(ConnectionLost):
            channel.receive(LIMIT)


def test_a_large_answer_that_breaks_off() -> None:
    whole = answer(1, 10) + answer(2, 4 * RECEIVE)
    with answering([whole[:-5]]) as channel:
        assert channel.receive(LIMIT).opaque == 1
        with pytest.raises(ConnectionLost, match="closed the connection"):
            channel.receive(LIMIT)
        assert not channel.is_open


def test_a_size_that_no_frame_has() -> None:
    with answering([b"\x7f\xff\xff\xff" + bytes(100)]) as channel, pytest.raises(FrameError):
        channel.receive(LIMIT)
