"""Reports are sound HTML with sound SVG in it, whatever the data says."""

from pathlib import Path
from xml.etree import ElementTree as ET

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
    assert [nice(value) for value in (0, 0.7, 1, 3, 42, 120, 1000)] == [1.0, 1.0, 1.0, 5.0, 50.0, 200.0, 1000.0]


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
