"""Programs that use other people's clients: they run scenarios by name and say in lines of JSON how each went."""

import json
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.servers import Cluster, java

DRIVER_TIMEOUT = 1200.0
PATIENT = "-Dcom.rocketmq.remoting.client.connect.timeout=30000"
"""Has a Java client wait for connections on a busy machine."""


@dataclass(frozen=True)
class Outcome:
    """How a scenario went."""

    ok: bool
    fault: str = ""
    seconds: float = 0.0


def run_java_driver(
    classpath: str, cluster: Cluster, home: Path, *scenarios: str, jvm: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Run scenarios with the official Java client; `jvm` are options of the virtual machine."""
    options = ["-Drocketmq.client.rebalance.waitInterval=2000", PATIENT, *jvm]
    command = java(classpath, "pyromq.Driver", cluster.namesrv, *scenarios, heap="300m", home=home, jvm=options)
    return run_driver(command, cluster, home)


def run_driver(command: list[str], cluster: Cluster, home: Path) -> dict[str, Outcome]:
    """Run a driver in a folder for what it leaves behind, doing to the servers what it asks for.

    RuntimeError when it says nothing at all.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
    )
    end = threading.Timer(DRIVER_TIMEOUT, process.kill)
    end.start()
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
    reader.start()
    try:
        outcomes = _listen(process, cluster)
    finally:
        end.cancel()
        process.kill()
        process.wait()
        reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if not outcomes:
        raise RuntimeError(f"the driver said nothing:\n{''.join(errors)[-4000:]}")
    return outcomes


def _listen(process: "subprocess.Popen[str]", cluster: Cluster) -> dict[str, Outcome]:
    assert process.stdout is not None
    assert process.stdin is not None
    outcomes: dict[str, Outcome] = {}
    for line in process.stdout:
        if line.startswith('{"ask"'):
            asked = json.loads(line)
            cluster.operations()[asked.pop("ask")](**asked)
            process.stdin.write("done\n")
            process.stdin.flush()
        elif line.startswith('{"scenario"'):
            said = json.loads(line)
            outcomes[said["scenario"]] = Outcome(said["ok"], said.get("fault", ""), said["ms"] / 1000)
    return outcomes
