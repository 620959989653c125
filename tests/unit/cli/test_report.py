"""Reports are sound HTML with sound SVG in it, whatever the data says."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.cli.report import Report, bars, lines
from pyromq.cli.report.plots import HEIGHT, nice

NAMES = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20)


@given(st.dictionaries(NAMES, st.floats(0, 1e12), max_size=9))
def test_bars_are_sound_whatever_the_names(values: dict[str, float]) -> None:
    root = ET.fromstring(bars(values, unit="€"))  # noqa: S314 - made here
    boxes = root.findall("rect")
    assert len(boxes) == len(values)
    for box in boxes:
        assert 0 <= float(box.attrib["y"]) <= HEIGHT
        assert float(box.attrib["height"]) >= 0


@given(st.dictionaries(NAMES, st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=5), max_size=4))
def test_lines_are_sound_whatever_the_points(series: dict[str, list[tuple[float, float]]]) -> None:
    root = ET.fromstring(lines(series, unit="messages/s", along="seconds"))  # noqa: S314 - made here
    assert len(root.findall("polyline")) == len(series)


def test_round_numbers() -> None:
    assert [nice(value) for value in (0, 0.7, 1, 3, 42, 120, 1000)] == [1.0, 0.75, 1.0, 5.0, 50.0, 150.0, 1000.0]


@given(st.floats(1e-6, 1e12))
def test_the_lines_of_a_grid_are_named_as_they_lie(value: float) -> None:
    root = ET.fromstring(bars({"": value}, unit="x"))  # noqa: S314 - made here
    texts = [each.text or "" for each in root.findall("text") if each.attrib["text-anchor"] == "end"]
    steps = [float(text.replace(",", "")) for text in texts if text != "x"]
    assert steps == pytest.approx([nice(value) * part / 5 for part in range(6)], rel=1e-6, abs=1e-12)


def test_a_page_escapes_its_data_and_loads_nothing(tmp_path: Path) -> None:
    report = Report("Orders <b>")
    report.check("sent 1 = stored 1", True)
    report.check("paid & shipped", False)
    report.section("Shops", command="pyromq demo", columns=["shop", "EUR"], rows=[["<script>", 1.5], ["Berlin", 3]])
    report.write(tmp_path / "sub" / "report.html")
    text = (tmp_path / "sub" / "report.html").read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert '<li class="failed">paid &amp; shipped</li>' in text
    assert "http" not in text
    assert '<td class="number">1.50</td>' in text
