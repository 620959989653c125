"""The table of the race: who is ahead, by how much, and what survives the next run."""

from pathlib import Path

import pytest
from benchmarks.race import rows
from benchmarks.standings import Standing, broker_aim, markdown, verdict, write_page

AHEAD = Standing("sends", "msgs/s", False, (100.0, 200.0, 300.0), (400.0, 400.0, 400.0), 2.0, 0.25)
BEHIND = Standing("wait", "ms", True, (1.0,), (2.0,), 0.5, 0.0)


def test_the_page_says_medians_ranges_and_who_is_behind() -> None:
    page = markdown([AHEAD, BEHIND], {"sends: apache": 3}, "small", "python -m benchmarks.versus_apache", 3)
    assert "| sends | msgs/s | 200 (100–300) | 400 (400–400) | 2.00 | 25% |" in page  # noqa: RUF001 - a range
    assert "| wait | ms | 1 (1–1) | 2 (2–2) | **0.50** |  |" in page  # noqa: RUF001 - a range
    assert "ahead in 1 of 2 rows" in page
    assert "Behind: wait (0.50)." in page
    assert "- sends: apache: 3" in page


def test_notes_stay_when_the_table_is_written_again(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(page, "first\n")
    assert page.read_text() == "first\n"
    page.write_text("first\n\n## Notes\n\nWhy.\n\n## Beside others\n\nMore.\n")
    write_page(page, "second\n")
    assert page.read_text() == "second\n\n## Notes\n\nWhy.\n\n## Beside others\n\nMore.\n"


THREE = Standing("sends, depth 256", "msgs/s", False, (100.0,), (250.0,), 2.5, 0.25, (90.0,), 0.9, aim=3.0)


def test_with_a_third_contender_the_page_has_its_columns() -> None:
    page = markdown([THREE, BEHIND], {}, "default", "python -m benchmarks.versus_apache", 1, "native core")
    assert "| sends, depth 256 | msgs/s | 100 (100–100) | 250 (250–250) | 2.50 | 90 (90–90) | **0.90** | 25% |" in page  # noqa: RUF001 - a range
    assert "| wait | ms | 1 (1–1) | 2 (2–2) | **0.50** |  |  |  |" in page  # noqa: RUF001 - a range
    assert "PyroMQ on its native core" in page
    assert "`-Xms8g -Xmx8g`" in page


def test_the_verdict_names_what_is_behind_and_what_is_short_of_the_aim() -> None:
    assert verdict([AHEAD, THREE, BEHIND]) == [
        "PyroMQ is ahead in 2 of 3 rows.",
        "Without the native core it is ahead in 0.",
        "Behind: wait (0.50).",
        "Ahead, but short of the aim: sends, depth 256 (2.50 of 3).",
    ]


@pytest.mark.parametrize(
    ("figure", "unit", "aim"),
    [
        ("send 128 B, depth 32, ASYNC_FLUSH", "msgs/s", 2),
        ("CPU: send 128 B, depth 32, ASYNC_FLUSH", "s/million", 2),
        ("send 128 B, depth 256, ASYNC_FLUSH", "msgs/s", 3),
        ("pull 128 B, 32 at a time, depth 32", "msgs/s", 3),
        ("send batches of 32, 128 B each, depth 32, ASYNC_FLUSH", "msgs/s", 3),
        ("send 128 B, depth 1, SYNC_FLUSH", "msgs/s", 1),
        ("end to end at half peak, ASYNC_FLUSH: p99", "ms", 1),
        ("memory after start-up (RSS)", "MB", 1),
    ],
)
def test_what_is_aimed_at(figure: str, unit: str, aim: float) -> None:
    assert broker_aim(figure, unit) == aim


def test_rows_have_names_and_figures_of_their_own() -> None:
    every = list(rows(quick=False))
    figures = [figure for row in every for figure in row.units]
    assert len(set(figures)) == len(figures)
    assert len({row.name for row in every}) == len(every)
    assert all(row.lower <= set(row.units) for row in every)
