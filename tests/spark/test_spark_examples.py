"""Every example for Spark runs, in the session of the tests."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.client.clusters import standalone_beside

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"

SAID = {
    "orders": ["111 messages, 10 repeated, 1 broken"],
    "sessions": ["7 clicks, 2 sessions are over"],
    "enrich": ["30 payments in, 30 out"],
    "archive": ["alarm: 20 messages, 610 bytes", "boot: 20 messages, 590 bytes", "report: 20 messages, 630 bytes"],
    "replay": ["20 rows since yesterday"],
    "traces": ["group example-audit is 15 messages behind in 2 queues"],
}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("examples")) as server:
        yield server.namesrv_address


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_example(
    spark: SparkSession, namesrv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(namesrv, tmp_path, spark)
    said = capsys.readouterr().out.splitlines()
    assert said[-len(SAID[name]) :] == SAID[name]
