"""`pyromq admin` with the command lines of mqadmin: against Apache's servers, and beside that against ours."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from pyromq.cli import app
from tests.interop.admin_commands import COMMANDS, workload
from tests.interop.mqadmin import MqAdmin
from tests.interop.servers import Cluster, apache, ours

_STREAMS = threading.Lock()
"""A command that is run in this process has its standard streams to itself."""

Outcome = tuple[int, Any, str]
"""Exit code, the JSON printed, and what was said on standard error."""


class OurAdmin:
    """Commands of `pyromq admin` against one cluster."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv

    def __call__(self, *arguments: str) -> Outcome:
        with _STREAMS:
            done = CliRunner().invoke(app, ["admin", *arguments, "-n", self._namesrv, "--json"])
        assert isinstance(done.exception, SystemExit | None), (arguments, done.exception)
        return done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Outcome], list[Outcome]]:
    """What became of all commands, with Apache's servers and with ours."""
    folders = [tmp_path_factory.mktemp("admin") for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        theirs, mine = pool.map(_run, (apache, ours), folders)
    return theirs, mine


def _run(kind: Callable[[Path], AbstractContextManager[Cluster]], folder: Path) -> list[Outcome]:
    topics, groups, exports = folder / "topics.json", folder / "groups.json", folder / "exports"
    topics.write_text(json.dumps([{"topicName": "listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}]))
    groups.write_text(json.dumps([{"groupName": "listed", "retryMaxTimes": 3}]))
    exports.mkdir()
    with kind(folder) as cluster:
        run = OurAdmin(cluster.namesrv)
        with workload(cluster, cast("MqAdmin", run), f"-{kind.__name__}-cli") as facts:
            words = facts | {"topics": str(topics), "groups": str(groups), "folder": str(exports)}
            return [run(*(word.format(**words) for word in command.split())) for command in COMMANDS]


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=lambda number: f"{number}-{COMMANDS[number].split()[0]}")
def test_our_admin(outcomes: tuple[list[Outcome], list[Outcome]], number: int) -> None:
    """The same exit code with both, one line of reason for a failure, and the same shape of what is printed."""
    if COMMANDS[number] == "getConsumerConfig -g nobody":
        pytest.skip("Apache's broker makes a group when somebody asks for it")
    (code, printed, said), (our_code, our_printed, our_said) = (each[number] for each in outcomes)
    assert (code, said and len(said.splitlines())) == (our_code, our_said and len(our_said.splitlines())), (
        said,
        our_said,
    )
    assert code in (0, 1), said
    if code == 0:
        assert _shape(printed) == _shape(our_printed)


def _shape(value: Any) -> Any:
    """Names of members, down to rows; what a table has of servers' own names and settings does not count."""
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    if isinstance(value, dict) and "rows" in value:
        return {**dict.fromkeys(value, None), "rows": _shape(value["rows"])}
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        return [type(value)]
    return sorted(value) if isinstance(value, dict) else type(value)
