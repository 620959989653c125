"""The tolerant JSON reader and the writer of the forms that peers need."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient import MAX_DEPTH, MAX_INPUT, ObjectKey, dumps, java_double, loads
from pyromq.protocol.lenient.barekeys import quote_bare_keys
from pyromq.protocol.message import MessageQueue

QUEUE_KEY = ObjectKey.of({"topic": "T", "brokerName": "broker-a", "queueId": 0})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {0: "a", 1: "b"}),
        ('{-1:"a",1.5:"b"}', {-1: "a", 1.5: "b"}),
        ("{null:1,true:2,false:3}", {None: 1, True: 2, False: 3}),
        ('{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}', {QUEUE_KEY: 5}),
        ('{{"a":{"b":[1,{"c":2}]}}:{{}:1}}', {ObjectKey.of({"a": {"b": [1, {"c": 2}]}}): {ObjectKey(): 1}}),
        (' { 0 : [ 1 , 2 ] ,\r\n\t"x" : { } } ', {0: [1, 2], "x": {}}),
        ('{0:1,0:2,"a":1,"a":2}', {0: 2, "a": 2}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{0:1.0E10,1:-0.5e-3,2:01,3:"\\u00e9\\/\\ud83d\\ude00"}', {0: 1e10, 1: -0.0005, 2: 1, 3: "é/\U0001f600"}),
        ('{0:"line\nbreak\ttab"}', {0: "line\nbreak\ttab"}),
        ('"\\ud800x"', "\ufffdx"),
        ("[]", []),
        ("7", 7),
    ],
)
def test_reads(text: str, value: object) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value
    assert loads(memoryview(text.encode())) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "a value but found the end of the text at position 0"),
        (b"{0:1", r"',' or '}' after a member but found the end of the text at position 4"),
        (b"{0:1,}", "a key but found '}' at position 5"),
        (b"{0 1}", "':' after a key but found '1' at position 3"),
        (b"{[0]:1}", "a key but found '\\[' at position 1"),
        (b"[1 2]", r"',' or '\]' after an element but found '2' at position 3"),
        (b"{0:1}x", "the end of the text but found 'x' at position 5"),
        (b"{0:nul}", "a value but found 'n' at position 3"),
        (b'{0:"abc', "bad JSON string at position 3"),
        (b'{0:"\\x"}', "bad JSON string at position"),
        (b'{0:"\xff"}', "not UTF-8: byte 0xff at position 4"),
        (b"{0:1e999}", "number 1e999 at position 3 is out of range"),
        (b"{0:" + b"9" * 5000 + b"}", "number of 5000 characters at position 3 is too long"),
        (b"NaN", "a value but found 'N'"),
    ],
)
def test_says_what_is_wrong_and_where(text: bytes, complaint: str) -> None:
    with pytest.raises(BodyError, match=complaint):
        loads(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', "{0:", "{{0:", "[{0:"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 100_000])
def test_depth_is_bounded(opening: str, levels: int) -> None:
    with pytest.raises(BodyError):
        loads(opening * levels)


def test_depth_limit_is_the_same_for_strict_and_loose_text() -> None:
    for key in ('"a"', "0"):
        inner = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
        loads(f"{{{key}:{inner}}}")
        with pytest.raises(BodyError, match="nested deeper"):
            loads(f"{{{key}:[{inner}]}}")


def test_length_is_bounded() -> None:
    with pytest.raises(BodyError, match="longer than the limit"):
        loads(b" " * (MAX_INPUT + 1))
    with pytest.raises(BodyError, match="11 bytes is longer than the limit of 10"):
        loads(b"[1,2,3,4,5]", limit=10)


def test_references_to_values() -> None:
    value = loads('{"a":{"x":[1,{"y":2}]},"b":{"$ref":"$.a"},"c":[{"$ref":"$.a.x[1]"}],0:{"$ref":"$.a.x"}}')
    assert isinstance(value, dict)
    assert value["b"] is value["a"]
    assert value["c"][0] is value["a"]["x"][1]
    assert value[0] is value["a"]["x"]


def test_references_in_strict_text() -> None:
    assert loads('{"statsDay":{"sum":1},"statsHour":{"$ref":"$.statsDay"}}') == {
        "statsDay": {"sum": 1},
        "statsHour": {"sum": 1},
    }


def test_references_to_what_encloses_them() -> None:
    value = loads('{"a":{"b":{"$ref":"@"},"c":{"$ref":".."},"d":[{"$ref":"$"},{"$ref":".."}]}}')
    assert isinstance(value, dict)
    inner = value["a"]
    assert inner["b"] is inner
    assert inner["c"] is value
    assert inner["d"][0] is value
    assert inner["d"][1] is inner


@pytest.mark.parametrize(
    "path",
    [r"$.m.broker\\-a", "$.m.broker-a", r"$.m.10\\.0\\.0\\.9\\@1\\[x\\]", "$.m.10.0.0.9@1[x]", "$.m[7]", "$.m.7"],
)
def test_references_through_names_with_special_characters(path: str) -> None:
    text = f'{{"m":{{"broker-a":["v"],"10.0.0.9@1[x]":["v"],7:["v"]}},"r":{{"$ref":"{path}"}}}}'
    value = loads(text)
    assert isinstance(value, dict)
    assert value["r"] == ["v"]


def test_references_as_keys() -> None:
    queue = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
    text = f'{{"consumerTable":{{"cid":{{{queue}:5}},"other":{{{{"$ref":"$.consumerTable.cid.null"}}:6,"x":7}}}}}}'
    assert loads(text) == {"consumerTable": {"cid": {QUEUE_KEY: 5}, "other": {QUEUE_KEY: 6, "x": 7}}}
    assert loads(f'{{"q":{queue},"t":{{{{"$ref":"$.q"}}:6}}}}') == {
        "q": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
        "t": {QUEUE_KEY: 6},
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref":"$"}',
        '{"a":{"$ref":"$.b"}}',
        '{"a":{"$ref":"$.a"}}',
        '{"a":{"$ref":"$[0]"}}',
        '{"a":[{"$ref":"$.a[7]"}]}',
        '{"a":{{"$ref":"@"}:1}}',
        '{"a":{"$ref":"$x"}}',
        '{"a":{"$ref":"$.a..."}}',
        '{"a":{{"x":1}:1,{"x":2}:2},"b":{{"$ref":"$.a.null"}:3}}',
        '{"a":{"$ref":"$' + ".a" * 1000 + '"}}',
    ],
)
def test_references_to_nowhere(text: str) -> None:
    with pytest.raises(BodyError, match="reference"):
        loads(text)


def test_work_for_references_is_bounded() -> None:
    nested = '{"x":' * 50 + "1" + "}" * 50
    reference = f'{{"$ref":"${".x" * 51}"}}'
    assert loads(f'{{"x":{nested},"refs":[{reference}]}}') == {"x": loads(nested), "refs": [1]}
    with pytest.raises(BodyError, match="too many references"):
        loads(f'{{"x":{nested},"refs":[{",".join([reference] * 4000)}]}}')


def test_an_ordinary_member_of_that_name_is_left_alone() -> None:
    value = {"a": {"$ref": 5}, "b": {"$ref": "$.a", "c": 1}, "c": {"$ref": "x"}, "d": {"$ref": ""}}
    assert loads(json.dumps(value)) == value


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text().filter("$ref".__ne__), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(JSON_VALUES)
def test_agrees_with_the_standard_library(value: object) -> None:
    text = json.dumps(value)
    assert loads(text) == value
    # A bare key sends the same value through the tolerant parser.
    assert loads(f"{{0:{text}}}") == {0: value}


@given(JSON_VALUES)
def test_writes_what_it_reads(value: object) -> None:
    def without_null_members(node: object) -> object:
        if isinstance(node, dict):
            return {key: without_null_members(member) for key, member in node.items() if member is not None}
        return [without_null_members(item) for item in node] if isinstance(node, list) else node

    expected = without_null_members(value)
    for text in (dumps(value), dumps(value, strict=True), dumps(value, pretty=True)):
        assert loads(text) == expected
        assert json.loads(text) == expected


class Point(msgspec.Struct, rename="camel"):
    y_axis: int
    x_axis: float | None = None
    raw: bytes = b""


def test_structs_are_sorted_and_nulls_left_out() -> None:
    assert dumps(Point(1)) == b'{"raw":"","yAxis":1}'
    assert dumps([Point(1, 2.0, b"\x05\x02")]) == b'[{"raw":"BQI=","xAxis":2.0,"yAxis":1}]'
    assert dumps({"a": None, "b": [None]}) == b'{"b":[null]}'


def test_keys_by_form() -> None:
    table = {MessageQueue("T", "b", 1): 5}
    assert dumps(table) == b'{{"brokerName":"b","queueId":1,"topic":"T"}:5}'
    assert dumps(table, strict=True) == b'{"{\\"brokerName\\":\\"b\\",\\"queueId\\":1,\\"topic\\":\\"T\\"}":5}'
    assert dumps({10: 1, 2: 2, True: 3}) == b"{10:1,2:2,true:3}"
    assert dumps({10: 1, 2: 2}, strict=True) == b'{"2":2,"10":1}'
    assert dumps({QUEUE_KEY: 1}) == b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:1}'
    assert dumps({3, 1, 2}) == b"[1,2,3]"


def test_text_by_form() -> None:
    assert dumps('"\\\b\f\n\r\t\x01/é\U0001f600') == '"\\"\\\\\\b\\f\\n\\r\\t\\u0001/é\U0001f600"'.encode()
    assert dumps("é\U0001f600", strict=True) == b'"\\u00e9\\ud83d\\ude00"'
    assert dumps("\ud800") == b'"?"'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (1234567.0, "1234567.0"),
        (12345678.5, "1.23456785E7"),
        (9999999.999, "9999999.999"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.5e-10, "-1.5E-10"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "null"),
        (math.inf, "null"),
    ],
)
def test_doubles_as_java_writes_them(number: float, text: str) -> None:
    assert java_double(number) == text
    assert dumps([number]).decode() == f"[{text}]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_keep_their_value(number: float) -> None:
    assert float(java_double(number)) == number


def test_what_cannot_be_written() -> None:
    with pytest.raises(BodyError, match="object has no JSON form"):
        dumps(object())
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BodyError, match="nested deeper"):
        dumps(endless)


def test_pretty_form_breaks_lines_before_text_keys_only() -> None:
    value = {"offsetTable": {"TopicTest@CG": {0: 3, 1: 9}, "empty": {}}, "list": [1, 2], "none": []}
    assert dumps(value, pretty=True).decode() == (
        '{\n\t"offsetTable":{\n\t\t"TopicTest@CG":{0:3,1:9\n\t\t},\n\t\t"empty":{}\n\t},\n'
        '\t"list":[\n\t\t1,\n\t\t2\n\t],\n\t"none":[]\n}'
    )


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b'{0:"a,1:b",-2:{3 : 4}}', b'{"0":"a,1:b","-2":{"3": 4}}'),
        (b'{"a":"\\"{1:2,\\\\",\n 5:6}', b'{"a":"\\"{1:2,\\\\",\n "5":6}'),
        (b'{"a":1}', None),
        (b'["{1:2}"]', None),
        (b'{0:"open', b'{"0":"open'),
        (b'{0:"open\\', b'{"0":"open\\'),
        (b'{0:1}\0""', None),
    ],
)
def test_bare_keys_become_quoted(text: bytes, quoted: bytes | None) -> None:
    assert quote_bare_keys(text) == quoted


def test_broken_strings_are_scanned_once() -> None:
    # Would take hours if each of the quotes were tried as the start of a string up to the end.
    assert quote_bare_keys(b'{0:"' + b'\\"' * 2_000_000) is not None


def test_number_of_values_is_bounded_in_loose_text() -> None:
    text = b"{0:[" + b"1," * 2000 + b"1]}"
    assert loads(text, limit=2048 * 64) == {0: [1] * 2001}
    with pytest.raises(BodyError, match="too many values"):
        loads(text, limit=5000)
