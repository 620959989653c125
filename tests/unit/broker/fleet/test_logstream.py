"""One log for all brokers of a fleet."""

import json

from pyromq.broker.fleet.logstream import LONGEST, Lines, named


def test_each_line_of_text_has_the_name() -> None:
    assert named("shop-1", "INFO hello", as_json=False) == "shop-1 | INFO hello"


def test_each_event_has_the_name() -> None:
    line = named("shop-1", '{"level": "info", "message": "grüße"}', as_json=True)
    assert json.loads(line) == {"broker": "shop-1", "level": "info", "message": "grüße"}


def test_what_is_no_event_becomes_one() -> None:
    for words in ("Traceback (most recent call last):", "17", '["a"]', ""):
        event = json.loads(named("shop", words, as_json=True))
        assert event == {"broker": "shop", "level": "error", "logger": "stderr", "message": words}


def test_lines_however_the_bytes_are_cut() -> None:
    text = "one\r\ntwo ü\n\nthree"
    for size in (1, 2, 5, 100):
        seen: list[str] = []
        lines = Lines(seen.append)
        data = text.encode()
        for begin in range(0, len(data), size):
            lines.feed(data[begin : begin + size])
        lines.end()
        assert seen == ["one", "two ü", "", "three"]


def test_a_line_without_an_end_takes_no_memory() -> None:
    seen: list[str] = []
    lines = Lines(seen.append)
    for _ in range(10):
        lines.feed(b"x" * (LONGEST // 2 + 1))
    assert len(seen) == 5
    lines.end()
    assert len(seen) == 5
