"""Log lines: one event, one line."""

import json
import logging
import sys

from pyromq.cli.logs import JsonLines, TextLines


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("pyromq.x", logging.WARNING, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_text_lines_cannot_be_forged() -> None:
    line = TextLines().format(record("topic 'a\n2026-01-01T00:00:00.000 ERROR forged\r'"))
    assert "\n" not in line
    assert "\r" not in line
    assert line.split(" ", 1)[1].startswith("WARNING pyromq.x: topic 'a\\n2026")


def test_json_lines_carry_extras_and_exceptions() -> None:
    made = record("said\n", broker="a", count=3, odd=object)
    try:
        raise ValueError("boom")  # noqa: TRY301 - to have a traceback
    except ValueError:
        made.exc_info = sys.exc_info()
    (line,) = JsonLines().format(made).splitlines()
    event = json.loads(line)
    assert (event["level"], event["logger"], event["message"]) == ("warning", "pyromq.x", "said\n")
    assert (event["broker"], event["count"]) == ("a", 3)
    assert "ValueError: boom" in event["exception"]
    assert event["time"].endswith("+00:00")
