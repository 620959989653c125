"""What commands print."""

import io
import json

import pytest
import typer
from rich.console import Console

from pyromq.cli.output import (
    Document,
    Lines,
    Moment,
    Output,
    Parts,
    Record,
    Rows,
    as_data,
    body_text,
    json_line,
    json_text,
    show,
)
from pyromq.cli.plaintext import one_line, printable
from pyromq.cli.times import millis_of
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.message import MessageQueue


def shown(output: Output, *, as_json: bool = False) -> str:
    text = io.StringIO()
    show(output, json=as_json, screen=Console(file=text, width=200, highlight=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


TABLE = Rows(("Broker Name", "QID", "InTPS"), [("broker-a", 0, 1.5), ("b", 12, None)], {"total": None})


def test_tables_are_aligned_and_say_what_is_unknown() -> None:
    assert shown(TABLE) == (
        "Broker Name  QID    InTPS\nbroker-a       0     1.50\nb             12  unknown\n\ntotal : unknown"
    )


def test_tables_as_json() -> None:
    rows = [{"brokerName": "broker-a", "qid": 0, "inTps": 1.5}, {"brokerName": "b", "qid": 12, "inTps": None}]
    assert json.loads(shown(TABLE, as_json=True)) == {"rows": rows, "total": None}
    assert as_data(Rows(TABLE.columns, TABLE.rows)) == rows


def test_records_lines_documents_and_parts() -> None:
    parts = Parts(
        {
            "record": Record({"a": True, "long name": ConsumeType.CONSUME_PASSIVELY}, title="t"),
            "lines": Lines(["one", "two"], [1, 2]),
            "document": Document({"x": 1}),
        }
    )
    assert shown(parts) == 't\na         : true\nlong name : CONSUME_PASSIVELY\n\none\ntwo\n\n{\n  "x": 1\n}'
    assert json.loads(shown(parts, as_json=True)) == {
        "record": {"a": True, "long name": "CONSUME_PASSIVELY"},
        "lines": [1, 2],
        "document": {"x": 1},
    }
    assert as_data(Lines(["said"])) == {"lines": ["said"]}


def test_text_from_the_network_cannot_drive_the_terminal() -> None:
    evil = "\x1b]0;owned\x07[red]\u202e\x9b31m"
    printed = shown(Rows(("A",), [(evil,)])) + shown(Record({evil: evil})) + shown(Lines([evil]))
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(printed)
    assert printed.count("\\x1b]0;owned\\x07[red]\\u202e\\x9b31m") == 4  # shown, and not as markup
    assert printable("plain ünïcode\n\tkept") == "plain ünïcode\n\tkept"


def test_what_goes_wrong_is_one_line() -> None:
    assert one_line("No route.\n See\tthe \x1b[1mdocumentation") == "No route. See the \\x1b[1mdocumentation"


def test_json_of_everything_that_commands_return() -> None:
    value = {
        MessageQueue("t", "b", 1): Moment(5),
        "text": b"hi",
        "binary": b"\xff",
        "route": TopicRouteData(),
        "set": {1},
        "none": None,
    }
    line = json.loads(json_line(value))
    assert line["text"] == "hi"
    assert line["binary"] == {"base64": "/w=="}
    assert line["route"]["queueDatas"] == []
    assert line["set"] == [1]
    assert 5 in line.values()
    assert json_text({"a": 1}) == '{\n  "a": 1\n}'


def test_moments_are_local_time_for_people_and_numbers_for_machines() -> None:
    moment = Moment(1_700_000_000_123)
    assert str(moment)[:8] == "2023-11-"
    assert json_line(moment) == b"1700000000123"
    assert str(Moment(0)) == "never"
    assert str(Moment(2**62)) == str(2**62)


def test_bodies() -> None:
    assert body_text("ß".encode("gbk", "replace"), "gbk") is not None
    assert body_text(b"\xff") is None
    assert body_text(b"x", "no-such-charset") is None


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("-1", -1),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.500+01:00", 1_700_000_000_500),
        ("now", 5_000),
        ("currentTimeMillis", 5_000),
    ],
)
def test_times(text: str, millis: int) -> None:
    assert millis_of(text, now=5.0) == millis


def test_times_as_mqadmin_writes_them_are_local() -> None:
    assert millis_of("2023-11-14#12:00:00:250") == millis_of("2023-11-14T12:00:00") + 250
    assert millis_of("2023-11-14#12:00:00") == millis_of("2023-11-14T12:00:00")


@pytest.mark.parametrize("text", ["yesterday", "", "2023-13-01", "2023-11-14#25:00:00:000", "2023#1:2:3:x", "9e99"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time; write now"):
        millis_of(text)
