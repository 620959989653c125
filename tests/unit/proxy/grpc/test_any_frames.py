"""Any frames a client may send, damaged or not: nothing but the wire suffers."""

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.proxy.http2.frames import frame
from tests.fuzz import http2
from tests.unit.proxy.grpc.caller import head

PAYLOADS = st.one_of(st.sampled_from([b"", bytes(4), bytes(5), bytes(8), head()]), st.binary(max_size=40))
FRAMES = st.builds(frame, st.integers(0, 10), st.integers(0, 255), st.integers(0, 9), PAYLOADS)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    seed = bytearray(draw(st.sampled_from(http2.seeds())))
    for _ in range(draw(st.integers(0, 4))):
        seed[draw(st.integers(0, len(seed) - 1))] = draw(st.integers(0, 255))
    return bytes(seed)


def test_seeds_do_what_they_should() -> None:
    with http2.opened() as feed:
        for seed in http2.seeds():
            feed(seed)


@given(st.one_of(damaged(), st.builds(bytes.__add__, damaged(), st.lists(FRAMES, max_size=8).map(b"".join))))
@example(b"\0" + frame(1, 4, 1, head()) + frame(3, 0, 1, bytes(4)))
def test_frames_in_any_order(data: bytes) -> None:
    with http2.opened() as feed:
        feed(data)
