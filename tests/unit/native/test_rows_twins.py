"""Rows become the same batch with the core and without it."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.arrow.pieces import buffers
from pyromq.protocol.names import MAX_BODY
from pyromq.protocol.records.batch import iter_batch
from pyromq.spark.sink.plainrows import batch_rows
from tests.unit.native import samples
from tests.unit.native.twins import agree, needs_core, twins

pytestmark = needs_core

TEXTS = st.none() | samples.TEXTS | samples.WORDS
ROWS = st.lists(st.tuples(st.binary(max_size=20) | st.none(), TEXTS, TEXTS), max_size=6)
PLAIN_ROWS = st.lists(st.tuples(st.binary(max_size=20), samples.WORDS | st.none(), samples.WORDS | st.none()))


@given(ROWS | PLAIN_ROWS, st.integers(0, 3), st.none() | st.integers(0, 1 << 17))
@example([(b"x" * (MAX_BODY + 1), None, None)], 0, 0)
@example([(b"x", "y" * 32767, None)], 0, 0)
@example([(b"", "", "\x01")], 0, 0xFFFF)
@example([(b"", None, None)] * 3, 1, 0xFFFE)
def test_rows(rows: list[tuple[bytes | None, str | None, str | None]], skipped: int, first: int | None) -> None:
    bodies, tags, keys = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [pa.array(bodies, pa.binary()), pa.array(tags, pa.string()), pa.array(keys, pa.string())]
    body, tag, key = (buffers(column[skipped:]) for column in columns)
    ids = None if first is None else ("7F00", first)
    found = agree(batch_rows, len(columns[0][skipped:]), body, [("TAGS", tag), ("KEYS", key)], ids).value
    if found is not None:
        assert isinstance(found, list)
        assert [bytes(item.body) for item in iter_batch(found[0])] == list(bodies[skipped:])


@given(
    st.integers(0, 9),
    st.binary(max_size=4) | st.none(),
    st.lists(st.integers(-3, 12), max_size=9),
    st.binary(max_size=9) | st.none(),
    st.integers(0, 20),
)
def test_buffers_that_lie_are_not_believed(
    count: int, valid: bytes | None, offsets: list[int], data: bytes | None, first: int
) -> None:
    column: tuple[Any, ...] = (valid, np.array(offsets, np.int32).view(np.uint8), data, first)
    found = twins(batch_rows).native(count, column, [("TAGS", column)], ("", 0))
    assert found is None or len(found[1]) == 8 * count
