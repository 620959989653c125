"""Messages as JSON, there and back; inputs and outputs of `pyromq send` and `pyromq consume`."""

import io
import json
from pathlib import Path

import pytest

from pyromq.cli.messages.form import Format, MessageForm, read_form, read_forms
from pyromq.cli.messages.inputs import MAX_BODY, messages_of
from pyromq.cli.messages.writer import FolderWriter, Writer
from pyromq.client.errors import ClientError
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import Message, ReceivedMessage


def stored(body: bytes = b"two pizzas", offset: int = 42) -> ReceivedMessage:
    sent = Message("orders", body, tags="paid", keys=["o-17", "c-4"], properties={"city": "Lisbon"}, flag=3)
    properties = sent.properties | {"UNIQ_KEY": "7F" * 16}
    return ReceivedMessage(
        "orders",
        body,
        properties,
        flag=3,
        broker_name="broker-a",
        queue_id=1,
        queue_offset=offset,
        store_timestamp=1_700_000_000_000,
    )


@pytest.mark.parametrize("body", [b"two pizzas", "ünïcode".encode(), b"\x00\xff", b'{"a": 1}'])
def test_what_consume_writes_send_can_read(body: bytes) -> None:
    line = io.BytesIO()
    Writer(line, Format.JSONL).write(stored(body))
    again = read_form(line.getvalue()).message("copy")
    assert (again.topic, again.body, again.tags, again.keys, again.flag) == ("copy", body, "paid", ("o-17", "c-4"), 3)
    assert again.properties["city"] == "Lisbon"
    assert "UNIQ_KEY" not in again.properties  # a new message gets a new id


def test_any_json_value_may_be_a_body() -> None:
    assert read_form(b'{"body": {"a": [1, null]}}').message("t").body == b'{"a":[1,null]}'
    assert [form.body for form in read_forms(b' [{"body": "a"}, {"body": "b"}]')] == ["a", "b"]
    assert [form.body for form in read_forms(b'{"body": "a"}')] == ["a"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "no message in JSON"),
        (b"\xff", "no message in JSON"),
        (b"[" * 5000, "no message in JSON"),
        (b'{"bod": "x"}', "unknown field `bod`"),
        (b'{"keys": "x", "body": "x"}', "Expected `array`"),
        (b"{}", "either a body or a bodyBase64"),
        (b'{"body": "x", "bodyBase64": "eA=="}', "either a body or a bodyBase64"),
        (b'{"bodyBase64": "?"}', "is not base64"),
    ],
)
def test_lines_that_are_no_message(line: bytes, reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        read_form(line).message("t")


def test_reserved_properties_are_refused() -> None:
    with pytest.raises(ValidationError, match="reserved"):
        MessageForm(body="x", properties={"UNIQ_KEY": "x"}).message("t")


def read(tmp_path: Path, data: bytes, form: Format, separator: str | None = None) -> list[Message]:
    path = tmp_path / "input"
    path.write_bytes(data)
    return list(messages_of("t", form, separator, [path], None))


def test_a_message_a_line(tmp_path: Path) -> None:
    assert [m.body for m in read(tmp_path, b"a\r\n\nb \nc", Format.LINES)] == [b"a", b"b ", b"c"]
    keyed = read(tmp_path, b"k1:a:b\n:c\nd\n", Format.LINES, ":")
    assert [(m.keys, m.body) for m in keyed] == [(("k1",), b"a:b"), ((), b"c"), ((), b"d")]


def test_a_message_a_file_and_documents(tmp_path: Path) -> None:
    assert [m.body for m in read(tmp_path, b"a\nb\n", Format.RAW)] == [b"a\nb\n"]
    assert [m.body for m in read(tmp_path, b'[{"body": "a"}, {"body": "b"}]', Format.JSON)] == [b"a", b"b"]
    assert [m.body for m in read(tmp_path, b'{"body": "a"}\n\n{"body": 1}', Format.JSONL)] == [b"a", b"1"]


def test_messages_of_the_command_line() -> None:
    given = messages_of("t", Format.LINES, "=", [], ["k=v", "two\nlines"])
    assert [(m.keys, m.body) for m in given] == [(("k",), b"v"), ((), b"two"), ((), b"lines")]


def test_errors_say_where(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"input, line 2: no message in JSON"):
        read(tmp_path, b'{"body": "a"}\nnonsense\n', Format.JSONL)
    with pytest.raises(ClientError, match=rf"input: more than {MAX_BODY} bytes"):
        read(tmp_path, b"x" * (MAX_BODY + 1), Format.RAW)
    with pytest.raises(ClientError, match=r"input, line 2: more than"):
        read(tmp_path, b"a\n" + b"x" * (2 * MAX_BODY + 1), Format.LINES)
    with pytest.raises(ClientError, match="for the format lines"):
        read(tmp_path, b"", Format.RAW, ":")
    with pytest.raises(ClientError, match="must not be empty"):
        read(tmp_path, b"", Format.LINES, "")
    with pytest.raises(ClientError, match="not both"):
        list(messages_of("t", Format.LINES, None, [tmp_path], ["x"]))


def written(form: Format, *messages: ReceivedMessage, template: str | None = None) -> bytes:
    class Kept(io.BytesIO):
        def close(self) -> None:
            self.kept = self.getvalue()

    stream = Kept()
    writer = Writer(stream, form, template)
    for message in messages:
        writer.write(message)
    writer.close()
    assert writer.written == len(messages)
    return stream.kept


def test_formats() -> None:
    assert written(Format.LINES, stored(b"a"), stored(b"b")) == b"a\nb\n"
    assert written(Format.RAW, stored(b"a"), stored(b"b")) == b"ab"
    assert len(written(Format.JSONL, stored(), stored()).splitlines()) == 2
    assert [row["queueOffset"] for row in json.loads(written(Format.JSON, stored(), stored()))] == [42, 42]
    assert json.loads(written(Format.JSON)) == []


def test_templates() -> None:
    text = written(Format.LINES, stored(b"\xff"), template=r"%t %b %q %o %k|%g|%T|%h|%S|%s%%\n")
    assert text == b'orders broker-a 1 42 o-17 c-4|paid|1700000000000|{"city":"Lisbon"}|1|\xff%\n'
    assert written(Format.LINES, stored(), template="%i") == b"7F" * 16
    for wrong in ("%z", "%", "\\z", "\\"):
        with pytest.raises(ClientError, match="the template has no field"):
            Writer(io.BytesIO(), Format.LINES, wrong)


def test_a_terminal_is_not_driven_by_what_others_sent() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    evil = stored("\x1b]0;owned\x07 ünïcode\n".encode() + b"\xff")
    for form, template, written in (
        (Format.LINES, None, "\\x1b]0;owned\\x07 ünïcode\n\\xff\n".encode()),
        (Format.RAW, None, evil.body),
        (Format.RAW, "%s", "\\x1b]0;owned\\x07 ünïcode\n\\xff".encode()),
    ):
        screen = Terminal()
        Writer(screen, form, template).write(evil)
        assert screen.getvalue() == written


def test_a_file_a_message(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    writer = FolderWriter(folder, Format.LINES)
    writer.write(stored(b"a"))
    FolderWriter(folder, Format.JSONL).write(stored(b"b", offset=43))
    writer.close()
    assert (folder / "broker-a-1-42").read_bytes() == b"a"
    assert json.loads((folder / "broker-a-1-43.json").read_bytes())["body"] == "b"
