"""The race beside Kafka: what is taken from Spark's progress, who is ahead, and what stays on the page."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks import kafka
from benchmarks.report import write_section
from benchmarks.sources import KAFKA, OURS, Row, kafka_source, our_source, rows, typical
from benchmarks.startstate import StartState
from benchmarks.versus_kafka import HEADING, markdown, outcome

STATE = StartState("none", "pyspark.zip", {"pyspark": False, "pyarrow": True}, writes_bytecode=False)


def _row(*, lower: bool) -> Row:
    return Row("reads", "ms" if lower else "rows/s", lower, lambda _bench, _source: (0.0, {}))


def _batch(took: float, rows_read: int = 16, **phases: float) -> dict[str, Any]:
    return {"numInputRows": rows_read, "durationMs": {"triggerExecution": took, **phases}}


def test_a_typical_batch_has_data_and_is_none_of_the_first() -> None:
    progress = [_batch(9000, addBatch=8000), *(_batch(took, addBatch=took / 2) for took in (100, 200, 300))]
    assert typical([*progress, _batch(1, rows_read=0)]) == (200, {"addBatch": 100})


def test_ratios_are_taken_within_a_round_and_above_one_is_a_win() -> None:
    values = {KAFKA: [100.0, 200.0, 400.0], OURS: [200.0, 600.0, 400.0]}
    faster = outcome(_row(lower=False), values, {})
    assert (faster.ratio, faster.kafka, faster.ours) == (2.0, (100.0, 200.0, 400.0), (200.0, 600.0, 400.0))
    assert outcome(_row(lower=True), values, {}).ratio == 0.5


def test_phases_are_medians_over_the_rounds() -> None:
    phases: dict[str, list[dict[str, float]]] = {
        KAFKA: [{"addBatch": took} for took in (10, 30, 20)],
        OURS: [{}, {}, {}],
    }
    values = {KAFKA: [1.0, 1.0, 1.0], OURS: [1.0, 1.0, 1.0]}
    assert outcome(_row(lower=True), values, phases).phases == {KAFKA: {"addBatch": 20.0}}


def test_the_table_says_medians_ranges_and_who_is_behind() -> None:
    values = {KAFKA: [100.0, 200.0, 300.0], OURS: [50.0, 100.0, 150.0]}
    text = markdown([outcome(_row(lower=False), values, {})], {"kafka": "1.2"}, STATE, 8000, 3.5, "python -m it")
    assert "| reads | rows/s | 200 (100–300) | 100 (50–150) | **0.50** |" in text  # noqa: RUF001 - a range
    assert "8,000 messages" in text
    assert "kafka 1.2" in text
    assert "load average at the start 3.5" in text
    assert "launcher `none`, PySpark from pyspark.zip, bytecode of pyarrow there, new bytecode not kept" in text


def test_the_section_is_replaced_and_all_else_on_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\n## Notes\n\nWhy.\n")
    write_section(page, HEADING, "first\n")
    assert page.read_text() == f"# Benchmarks\n\n## Notes\n\nWhy.\n{HEADING}\nfirst\n"
    page.write_text(f"{page.read_text()}\n### What this says\n\nA lot.\n\n## More\n")
    write_section(page, HEADING, "second\n")
    kept = "\n### What this says\n\nA lot.\n\n## More\n"
    assert page.read_text() == f"# Benchmarks\n\n## Notes\n\nWhy.\n{HEADING}\nsecond\n{kept}"


def test_both_sources_are_asked_for_as_many_columns() -> None:
    ours, theirs = our_source("127.0.0.1:1", "bench"), kafka_source("127.0.0.1:2", "bench")
    assert len(ours.narrow["columns"].split(",")) == len(theirs.select)


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in rows()]
    assert len(set(names)) == len(names)


def test_a_machine_without_maven_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "mvn" else f"/bin/{name}")
    with pytest.raises(RuntimeError, match="mvn not found on PATH"):
        kafka.require_tools()


def test_kafka_listens_on_the_loopback_interface_only() -> None:
    settings = kafka.properties(Path("/data"), 19092, 8)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert settings["num.partitions"] == "8"
