"""`pyromq bench` against a running cluster."""

import json
from pathlib import Path
from typing import Any

from tests.integration.cli.cluster import CLUSTER, Commands


def figures(pyromq: Commands, line: str) -> Any:
    """What a benchmark, given as one line, says about itself."""
    return json.loads(pyromq("bench", *line.split(), "--json"))


def test_producer_and_consumer(pyromq: Commands, tmp_path: Path) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t load -r 2 -w 2")
    sent = figures(pyromq, "producer -t load -q 200 -w 8 -s 64 -k true -p 20 -l 2")
    assert (sent["messages"], sent["failed"]) == (200, 0)
    assert 0 < sent["rt"]["p50Ms"] <= sent["rt"]["maxMs"]
    later = figures(pyromq, "producer -t load -q 10 -y true")
    assert later["messages"] == 10
    batched = figures(pyromq, "batch -t load -q 100 -b 20 -w 2")
    assert batched["messages"] == 100
    read = figures(pyromq, "consumer -t load -q 310 --from-earliest -w 4 -g readers -p false")
    assert (read["messages"], read["failed"]) == (310, 0)
    assert read["b2c"]["averageMs"] >= 0
    (tmp_path / "tags").write_text("tag1\n")
    filtered = figures(pyromq, f"consumer -t load -q 100 --from-earliest -f TAG -e {tmp_path / 'tags'}")
    assert filtered["messages"] == 100


def test_transactions(pyromq: Commands) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t deals -r 1 -w 1")
    done = figures(pyromq, "transaction -t deals -q 20 -w 2 -s 10 -sr 1.0")
    assert (done["messages"], done["rollback"]) == (20, 20)
    done = figures(pyromq, "transaction -t deals -q 5 -w 2 -i 1")
    assert done["commit"] == 5
    assert len(pyromq("consume", "deals", "-e", "-f", "jsonl").splitlines()) == 5


def test_a_time_ends_a_run_and_figures_are_for_people_too(pyromq: Commands) -> None:
    done = pyromq.invoke("bench", "producer", "--seconds", "0.5", "--report", "0.1", "-w", "2")
    assert done.exit_code == 0
    assert done.stderr.startswith("TPS: ")
    assert done.stdout.startswith("messages    : ")


def test_nothing_works(pyromq: Commands) -> None:
    done = pyromq.invoke("bench", "producer", "-n", "127.0.0.1:1", "-w", "1", "-q", "1")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("pyromq: nothing worked: no route")
    assert "a filter needs its kind" in pyromq.refused("bench", "consumer", "-f", "TAG", code=2)
    assert "cannot be read" in pyromq.refused("bench", "consumer", "-f", "TAG", "-e", "no-such-file")
