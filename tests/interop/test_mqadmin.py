"""What the official mqadmin prints about our servers, beside what it prints about Apache's after the same workload."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.interop.access_commands import ACCESS_COMMANDS
from tests.interop.admin_commands import COMMANDS, LEFT_OUT, workload
from tests.interop.artifacts import SERVER_VERSION
from tests.interop.matrix import MQADMIN, Note
from tests.interop.mqadmin import MqAdmin
from tests.interop.secured import ROOT, apache_authenticated, our_authenticated
from tests.interop.servers import Cluster, apache, ours

COLUMN = f"mqadmin {SERVER_VERSION} → PyroMQ"

Printed = list[tuple[str, str]]

SETTINGS = ("brokerStatus", "getBrokerConfig", "getNamesrvConfig")
"""Their lines are compared by name: each side has settings that the other does not know."""

OWN = {
    # what differs between any two brokers
    "listenPort", "haListenPort", "bootTimestamp", "runtime", "earliestMessageTimeStamp",
    # a promise of ours, where Apache's default is another one
    "flushDiskType", "inSyncReplicas", "metricsOtelCardinalityLimit",
    # releases
    "brokerVersionDesc",
}  # fmt: skip
MEASURED = re.compile(r"Tps$|Ratio$|Capacity$|Latency|Time(Max)?$|^putMessage|OffsetMax|Total|Average|Behind$")
ABSENT = re.compile(r"^RMQ_SYS_ROCKSDB_")
"""Topics of Apache's RocksDB, which we have not."""
VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([,.:]\d+)?"), "<time>"),
    (re.compile(r"\b\d{13}\b|\b\d{17}\b"), "<ms>"),
    (re.compile(r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b"), "<id>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\bV\d_\d+_\d+\b"), "<version>"),
    (re.compile(r"rt=\d+ms|spentTimeMills=\d+|RT: [\d.]+|TPS: [\d.]+"), "<measured>"),
    (re.compile(r"(?m)^(\S+ +\d+ +true +)\d+$"), r"\1<measured>"),
    (re.compile(r"object at 0x[0-9a-f]+"), "<object>"),
    (re.compile(r"DESC: .*"), "<remark>"),
    (re.compile(r"(?m)^(See|For more information, please visit the url,) https://.*$"), "<advice>"),
    (re.compile(r"\d\.\d+ (true|false)$"), r"<ratio> \1"),
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Printed, Printed]:
    """What all commands print, with Apache's servers and with ours."""
    folders = [tmp_path_factory.mktemp("mqadmin") for _ in range(2)]
    with ThreadPoolExecutor() as pool:  # the tool waits most of the time
        theirs, mine = pool.map(_run, (apache, ours), folders)
    return theirs, mine


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=lambda number: f"{number}-{COMMANDS[number].split()[0]}")
def test_mqadmin(printed: tuple[Printed, Printed], number: int, note: Note) -> None:
    name = COMMANDS[number].split()[0]
    note(MQADMIN, name, COLUMN)
    (_, theirs), (_, mine) = (each[number] for each in printed)
    if name in SETTINGS:
        _compare_settings(theirs, mine, "=" if "Config" in name else ":")
    else:
        assert masked(name, mine) == masked(name, theirs)


@pytest.fixture(scope="module")
def printed_access(tmp_path_factory: pytest.TempPathFactory) -> tuple[Printed, Printed]:
    """What the commands about users and rules print, with Apache's servers and with ours."""
    folders = [tmp_path_factory.mktemp("access") for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        theirs, mine = pool.map(_run_access, (apache_authenticated, our_authenticated), folders)
    return theirs, mine


@pytest.mark.parametrize(
    "number", range(len(ACCESS_COMMANDS)), ids=lambda number: f"{number}-{ACCESS_COMMANDS[number].split()[0]}"
)
def test_access(printed_access: tuple[Printed, Printed], number: int, note: Note) -> None:
    name = ACCESS_COMMANDS[number].split()[0]
    note(MQADMIN, name, COLUMN)
    (_, theirs), (_, mine) = (each[number] for each in printed_access)
    assert masked(name, mine) == masked(name, theirs)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_does_not_apply(name: str, note: Note) -> None:
    note(MQADMIN, name, COLUMN)
    pytest.skip(LEFT_OUT[name])


def _run(kind: Callable[[Path], AbstractContextManager[Cluster]], folder: Path) -> Printed:
    topics, groups, exports = folder / "topics.json", folder / "groups.json", folder / "exports"
    topics.write_text(json.dumps([{"topicName": "listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}]))
    groups.write_text(json.dumps([{"groupName": "listed", "retryMaxTimes": 3}]))
    exports.mkdir()
    suffix = f"-{kind.__name__}"
    with kind(folder) as cluster, MqAdmin(cluster.namesrv, folder) as run, workload(cluster, run, suffix) as facts:
        words = facts | {"topics": str(topics), "groups": str(groups), "folder": str(exports)}
        outputs = [(command, run(*(word.format(**words) for word in command.split()))) for command in COMMANDS]
    return [(command, text.replace(str(folder), "<folder>").replace(suffix, "")) for command, text in outputs]


def _run_access(secured: Callable[[Path], AbstractContextManager[Cluster]], folder: Path) -> Printed:
    with secured(folder) as cluster, MqAdmin(cluster.namesrv, folder, ROOT) as run:
        return [
            (command, run(*(word.format(broker=cluster.broker.address) for word in command.split())))
            for command in ACCESS_COMMANDS
        ]


def masked(name: str, text: str) -> list[str]:
    """Lines without what differs from run to run; sorted where the order has no meaning."""
    text = re.sub(r"[ \t]+", " ", text)
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not ABSENT.match(line.removeprefix("DefaultCluster "))]
    shorten = SHORTENED.get(name)
    lines = [shorten(line) for line in lines] if shorten else lines
    return sorted(lines) if name in ("topicList", "statsAll") else lines


def _without_figures(line: str) -> str:
    """Rates of statsAll: sampled when the broker gets to it. Of what runs inside a broker, ours commits its position
    from the start, Apache's with the first message."""
    if line.startswith("RMQ_SYS_TRANS_"):
        return line.split(maxsplit=1)[0]
    return re.sub(r" \d+ [\d.]+( [\d.]+)? \d+ (?:\d+|(NO_CONSUMER))$", r" <figures> \2", line)


SHORTENED: dict[str, Callable[[str], str]] = {
    # Rates of the last seconds, and the age of the oldest message in hours.
    # Rates; and by how many seconds the timer is behind, which is 0 or 1 with either broker when nothing waits.
    "clusterList": lambda line: re.sub(
        r"(?<= )[01](?=-0\()", "<behind>", re.sub(r"(?<= )\d+\.\d\d(?=\(| <ratio>)", "<rate>", line)
    ),
    "statsAll": _without_figures,
    "topicList": lambda line: line.replace(" CID_RMQ_SYS_TRANS", ""),
    # The number of topics of the broker, system topics included.
    "wipeWritePerm": lambda line: re.sub(r"\d+$", "<count>", line),
    "addWritePerm": lambda line: re.sub(r"\d+$", "<count>", line),
    # Whatever is wrong about users, Apache's broker says 16, no permission; ours 29, a wrong parameter.
    "createUser": lambda line: re.sub(r"CODE: (16|29)", "CODE: <fault>", line),
    "createAcl": lambda line: re.sub(r"CODE: (16|29)", "CODE: <fault>", line),
    # A secret is never given away; Apache's broker does.
    "getUser": lambda line: re.sub(r"^(\S+) \S+ (Normal|Super) ", r"\1 <secret> \2 ", line),
    "listUser": lambda line: re.sub(r"^(\S+) \S+ (Normal|Super) ", r"\1 <secret> \2 ", line),
    "consumerStatus": lambda line: re.sub(r"(?<= )[\d.]+(?= |$)", "<figure>", line),
}


def _compare_settings(theirs: str, mine: str, sign: str) -> None:
    """What both know has the same value; and both know a lot."""
    left, right = (_settings(text, sign) for text in (theirs, mine))
    common = {name for name in left.keys() & right.keys() if name not in OWN and not MEASURED.search(name)}
    assert {name: right[name] for name in common} == {name: left[name] for name in common}
    assert len(common) >= 10


def _settings(text: str, sign: str) -> dict[str, str]:
    pairs = (line.partition(sign) for line in text.splitlines() if sign in line and "====" not in line)
    return {name.strip(): value.strip().replace("127.0.0.1", "") for name, _, value in pairs}
