"""JSON bodies become the same columns, and the same errors, with the core and without it."""

import json
import math
import struct
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq import native
from pyromq.arrow.body import BodyReader, body_columns
from pyromq.arrow.errors import BadRecordError
from pyromq.arrow.pieces import buffers
from pyromq.arrow.policy import BadRecords
from tests.unit.native.twins import needs_core, twins

pytestmark = needs_core

FIELDS = {
    "n": pa.int32(),
    "id": pa.int64(),
    "x": pa.float64(),
    "größe": pa.string(),
    "ok": pa.bool_(),
    "at": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
}
FORMATS = [("n", "i"), ("id", "l"), ("x", "g"), ("größe", "u"), ("ok", "b"), ("at", "tsu:UTC"), ("local", "tsu:")]
TIMES = st.from_regex(
    r"\A[0-2]\d{3}-(0\d|1[0-3])-[0-3]\d[Tt ][0-2]\d:[0-6]\d:[0-6]\d(\.\d{0,7})?(Z|z|\+0\d:00|-0130|)\Z"
)
NUMBERS = (
    st.integers(-(2**65), 2**65).map(str)
    | st.integers(-5, 5).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.from_regex(r"\A-?\d{1,20}(\.\d{0,20})?([eE][+-]?\d{0,4})?\Z")
    | st.sampled_from(["-0", "0", "-0.0", "00", "1.", ".5", "1e5", "-", "+1", "9223372036854775807", "1e999", "NaN"])
)
SCALARS = (
    NUMBERS
    | st.text(max_size=8).map(json.dumps)
    | st.text(max_size=12).map(lambda text: json.dumps(text, ensure_ascii=False))
    | TIMES.map(json.dumps)
    | st.datetimes().map(lambda time: json.dumps(time.isoformat() + "Z"))
    | st.sampled_from(["true", "false", "null", "True", '"', '"\x01"', '"a\\q"', "tru", ""])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: f"[{', '.join(values)}]")
        | st.lists(st.tuples(st.text(max_size=3).map(json.dumps), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{name} : {value}" for name, value in pairs) + "}"
        )
    ),
    max_leaves=6,
)
NAMES = st.sampled_from([*FIELDS, "other", "gr\\u00f6\\u00dfe", ""])
OBJECTS = st.lists(st.tuples(NAMES, VALUES), max_size=8).map(
    lambda pairs: "{" + ", ".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
        "größe": st.none() | st.text(),
        "ok": st.none() | st.booleans(),
        "at": st.none() | st.datetimes().map(lambda time: time.isoformat() + "Z") | st.integers(-(10**13), 10**13),
        "local": st.none() | st.datetimes().map(lambda time: time.isoformat()),
        "other": st.recursive(st.none() | st.text() | st.floats(), st.lists, max_leaves=4),
    },
).map(lambda made: json.dumps(made, ensure_ascii=False))
TEXTS = (OBJECTS | FITTING | VALUES | st.text(max_size=6)).map(lambda text: text.encode("utf-8", "surrogatepass"))
BODIES = st.lists(TEXTS | st.binary(max_size=6), max_size=5)


def exact(value: Any) -> Any:
    """With the sign of a zero."""
    return struct.pack(">d", value) if isinstance(value, float) and not math.isnan(value) else value


def outcome(bodies: list[bytes], bad: BadRecords, *, core: bool) -> Any:
    native.core.on = core
    try:
        made, stays = BodyReader([pa.field(*each) for each in FIELDS.items()], bad).columns(
            pa.array([b"", *bodies], pa.binary())[1:]
        )
    except BadRecordError as error:
        return str(error)
    finally:
        native.core.on = True
    for column in made.values():
        column.validate(full=True)
    columns = {name: (column.type, list(map(exact, column.to_pylist()))) for name, column in made.items()}
    return columns, None if stays is None else stays.to_pylist()


def same_columns(bodies: list[bytes], bad: BadRecords) -> None:
    assert outcome(bodies, bad, core=True) == outcome(bodies, bad, core=False)


@given(BODIES, st.sampled_from(BadRecords))
@example([b'{"x": 1.7976931348623157e308}', b'{"x": 5e-324}', b'{"x": 0.1}'], BadRecords.FAIL)
@example([b'{"at": "2024-02-29T23:59:59.000001Z"}', b'{"at": "1900-02-28T00:00:00"}'], BadRecords.FAIL)
@example([b'{"at": "0001-01-01T00:00:00Z"}', b'{"at": "9999-12-31T23:59:59.999999Z"}'], BadRecords.FAIL)
@example([b'{"at": "1900-02-29T00:00:00Z"}', b'{"at": "2026-01-01T24:00:00Z"}'], BadRecords.KEEP)
@example([b'{"id": 1, "id": "x"}', b'{"id": "x", "id": 1}'], BadRecords.NULL)
@example([b'{"other": "\\ud800", "id": 1}', b'{"other": "\xff"}'], BadRecords.KEEP)
def test_any_bodies_make_the_same_columns(bodies: list[bytes], bad: BadRecords) -> None:
    same_columns(bodies, bad)


PLAIN = [
    b"{}",
    b' {"id" : 7 ,\n"n":-2147483648, "unknown": {"a": [1, {"b": null}, "c"]}} ',
    b'{"x": 1.5, "gr\xc3\xb6\xc3\x9fe": "\xe2\x82\xac", "ok": true, "at": "2026-01-31T12:00:00.25Z", "local": 0}',
    b'{"x": 12, "id": null, "ok": false, "at": "2026-01-31T12:00:00"}',
]
ODD = [
    b"",
    b"[]",
    b'{"id": 1} x',
    b'{"id": 1.0}',
    b'{"n": 2147483648}',
    b'{"ok": 1}',
    b'{"id": 1, "id": 1}',
    b'{"\\u0061": 1}',
]


def test_what_is_plain_is_left_to_the_core() -> None:
    bodies = pa.array([*PLAIN, *ODD], pa.binary())
    columns, left = twins(body_columns).native(len(bodies), buffers(bodies), FORMATS)
    assert [int.from_bytes(left[at : at + 8], "little") for at in range(0, len(left), 8)] == list(
        range(len(PLAIN), len(bodies))
    )
    assert pa.record_batch(columns).column("id").to_pylist()[: len(PLAIN)] == [None, 7, None, None]


def test_other_types_are_left_to_python() -> None:
    bodies = buffers(pa.array([b"{}"], pa.binary()))
    assert twins(body_columns).native(1, bodies, [("a", "f")]) is None
    assert (
        BodyReader([pa.field("a", pa.float32())], BadRecords.FAIL).columns(pa.array([b'{"a": 1}']))[0]["a"][0].as_py()
    )


@pytest.mark.parametrize("count", [2, 1 << 60])
def test_counts_that_lie_are_not_believed(count: int) -> None:
    bodies = buffers(pa.array([b"{}"], pa.binary()))
    assert twins(body_columns).native(count, bodies, [("a", "l")]) is None
