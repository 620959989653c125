"""The table of the race: who is ahead, by how much, and what survives the next run."""

from pathlib import Path

from benchmarks.standings import Standing, markdown, write_page

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
