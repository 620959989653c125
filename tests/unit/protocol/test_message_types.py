"""What is no text, number or bytes is refused where it is given, not turned into text that nobody asked for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pyromq import Message
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.names import check_group, check_topic


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"tags": ["a", "b"]}, r"tags must be text, not list: \['a', 'b'\]; a message has one tag"),
        ({"tags": 5}, "tags must be text, not int: 5"),
        ({"tags": b"a"}, "tags must be text, not bytes: b'a'"),
        ({"sharding_key": 17}, "sharding_key must be text, not int: 17"),
        ({"keys": 17}, "keys must be text or several texts, not int: 17"),
        ({"keys": b"ab"}, "keys must be text or several texts, not bytes: b'ab'"),
        ({"keys": ["o-1", 17]}, "a key must be text, not int: 17"),
        ({"keys": ["order 17"]}, "the key 'order 17' holds a blank, which separates keys"),
        ({"keys": ["a", ""]}, "a key is empty"),
        ({"properties": {"a": 5}}, "the value of property 'a' must be text, not int: 5"),
        ({"properties": {5: "a"}}, "a property name must be text, not int: 5"),
        ({"delay_seconds": 1.5}, "delay_seconds must be a whole number, not float: 1.5"),
        ({"delay_level": "3"}, "delay_level must be a whole number, not str: '3'"),
        ({"delay_level": True}, "delay_level must be a whole number, not bool: True"),
        ({"delay_ms": -1}, "delay_ms must be 0 or more, not -1"),
        ({"deliver_at_ms": datetime(2026, 1, 1, tzinfo=UTC)}, "deliver_at_ms must be a whole number, not datetime"),
        ({"flag": "1"}, "flag must be a whole number, not str: '1'"),
        ({"wait_store_ok": "false"}, "wait_store_ok must be True or False, not str: 'false'"),
        ({"body": "text"}, r"the body must be bytes, not str; encode it: text.encode\(\)"),
        ({"body": 5}, "the body must be bytes, not int"),
        ({"topic": 5}, "the topic must be text, not int: 5"),
    ],
)
def test_wrong_types_are_named(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Message(**{"topic": "T", "body": b"x"} | given)


@pytest.mark.parametrize(
    ("name", "value"), [("tags", ["a"]), ("sharding_key", 1), ("delay_level", 0.5), ("keys", [1]), ("delay_ms", -1)]
)
def test_also_when_set_later(name: str, value: object) -> None:
    message = Message("T", b"x", tags="a", keys=["k"])
    with pytest.raises(ValidationError):
        setattr(message, name, value)
    assert (message.tags, message.keys, message.is_delayed) == ("a", ("k",), False)


def test_what_was_right_stays_right() -> None:
    message = Message("T", b"x", tags="a", keys="k1 k2", delay_level=3, properties={"a": "b"}, flag=-1)
    assert (message.keys, message.delay_level, message.flag) == (("k1", "k2"), 3, -1)
    assert Message("T", memoryview(b"x"), keys=(key for key in ("a", "b"))).keys == ("a", "b")  # type: ignore[arg-type]
    message.tags = None
    message.keys = ()
    message.delay_level = 0
    assert message.properties == {"a": "b", "WAIT": "true"}


def test_names_are_text() -> None:
    with pytest.raises(ValidationError, match="the topic must be text, not int: 5"):
        check_topic(5)  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ValidationError, match="the group must be text, not NoneType"):
        check_group(None)  # type: ignore[arg-type]  # what is tried
