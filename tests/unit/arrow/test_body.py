"""JSON bodies as columns."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.arrow.body import BodyReader
from pyromq.arrow.columns import TIMESTAMP
from pyromq.arrow.errors import BadRecordError, ColumnError
from pyromq.arrow.policy import BadRecords
from pyromq.spark.task.rowplan import field_names

EVERYTHING = {
    "id": pa.int64(),
    "count": pa.int32(),
    "amount": pa.float64(),
    "price": pa.decimal128(10, 2),
    "user name": pa.string(),
    "paid": pa.bool_(),
    "at": TIMESTAMP,
    "local": pa.timestamp("us"),
    "day": pa.date32(),
    "tags": pa.list_(pa.string()),
    "address": pa.struct([("city", pa.string()), ("seen", TIMESTAMP)]),
    "extra": pa.map_(pa.string(), pa.float64()),
}


def reader(bad: BadRecords = BadRecords.FAIL, **fields: pa.DataType) -> BodyReader:
    return BodyReader([pa.field(name, kind) for name, kind in (fields or EVERYTHING).items()], bad)


def test_every_type() -> None:
    body = (
        b'{"id": 1, "count": 2, "amount": 3, "price": 4.5, "user name": "J\xc3\xb6", "paid": true, '
        b'"at": "2026-01-02T03:04:05Z", "local": 1700000000000, "day": "2026-01-02", "tags": ["a", null], '
        b'"address": {"city": "K", "seen": 0, "zip": 9}, "extra": {"x": 1.5}, "unknown": [{}]}'
    )
    made, stays = pickle.loads(pickle.dumps(reader())).columns(pa.array([body, b"{}"]))  # noqa: S301 - our own
    assert stays is None
    assert {name: column.to_pylist()[0] for name, column in made.items()} == {
        "id": 1,
        "count": 2,
        "amount": 3.0,
        "price": Decimal("4.50"),
        "user name": "Jö",
        "paid": True,
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "local": datetime(2023, 11, 14, 22, 13, 20),  # noqa: DTZ001 - a time without zone is what is asked for
        "day": date(2026, 1, 2),
        "tags": ["a", None],
        "address": {"city": "K", "seen": datetime(1970, 1, 1, tzinfo=UTC)},
        "extra": [("x", 1.5)],
    }
    assert all(column.to_pylist()[1] is None for column in made.values())
    assert all(made[name].type == kind for name, kind in EVERYTHING.items())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"id": "1"}',
        b'{"id": 9223372036854775808}',
        b'{"count": 3000000000}',
        b'{"amount": 1e999}',
        b'{"price": 1.234}',
        b'{"price": 123456789.0}',
        b'{"user name": "\xff"}',
        b'{"at": "soon"}',
        b'{"at": 9999999999999999}',
        b'{"tags": "a"}',
        b'{"address": {"city": 1}}',
        b"[" * 5000,
    ],
)
def test_bad_records(body: bytes) -> None:
    bodies = pa.array([b'{"id": 1}', body, b'{"id": 3}'])
    with pytest.raises(BadRecordError, match="bodySchema"):
        reader().columns(bodies)
    nulls, stays = reader(BadRecords.NULL).columns(bodies)
    assert nulls["id"].to_pylist() == [1, None, 3]
    assert stays is None
    _, stays = reader(BadRecords.DROP).columns(bodies)
    assert stays is not None
    assert stays.to_pylist() == [True, False, True]
    kept, stays = reader(BadRecords.KEEP).columns(bodies)
    assert stays is None
    assert kept["_body"].to_pylist() == [None, body, None]
    errors = kept["_error"].to_pylist()
    assert errors[0] is None
    assert errors[1]


def test_names_in_a_schema() -> None:
    assert field_names("id bigint, `a b` map<string, int>, c: struct<x:int,y:decimal(1,2)>") == ["id", "a b", "c"]
    with pytest.raises(ColumnError, match="'id'"):
        field_names("id")


def test_types_without_a_form_are_refused() -> None:
    with pytest.raises(ColumnError, match="no form"):
        reader(a=pa.map_(pa.int32(), pa.string()))
