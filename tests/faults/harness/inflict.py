"""How faults are done to a cluster, and undone."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.faults.harness.cluster import Cluster
from tests.faults.harness.machine import set_state
from tests.faults.harness.schedule import Fault

BALLAST = "ballast"
BLOCK = 64 << 10


async def begin(cluster: Cluster, fault: Fault) -> None:
    """Let it happen."""
    process = cluster.processes[fault.machine]
    network, machine, others = cluster.network, {fault.machine}, set(fault.others)
    match fault.kind:
        case "kill":
            await process.kill()
        case "wipe":
            await process.kill()
            cluster.wipe(fault.machine)
        case "restart":
            await process.stop()
        case "pause":
            process.signal(signal.SIGSTOP)
        case "cut":
            network.cut(machine, others)
        case "refuse":
            network.cut(machine, others, refuse=True)
        case "mute":
            network.cut(machine, others, one_way=True)
        case "deaf":
            network.cut(others, machine, one_way=True)
        case "slow":
            network.slow(machine, others, fault.value / 2, fault.value)
        case "lossy":
            network.lossy(machine, others, fault.value)
        case "full":
            if cluster.can_be_filled(fault.machine):
                await asyncio.to_thread(_fill, cluster.disk(fault.machine) / BALLAST)
            else:
                set_state(process.state, full=True)
        case "clock":
            set_state(process.state, ahead=int(fault.value * 1e9))
        case unknown:
            raise ValueError(unknown)


async def end(cluster: Cluster, fault: Fault) -> None:
    """Make it good; servers that were stopped accept requests again when this returns."""
    process = cluster.processes[fault.machine]
    match fault.kind:
        case "kill" | "wipe" | "restart":
            await process.start()
        case "pause":
            process.signal(signal.SIGCONT)
        case "full":
            (cluster.disk(fault.machine) / BALLAST).unlink(missing_ok=True)
            set_state(process.state)
        case "clock":
            set_state(process.state)
        case _:
            cluster.network.heal({fault.machine}, set(fault.others))


def _fill(path: Path) -> None:
    """Take all the space there is."""
    size = 0
    with path.open("wb") as file, suppress(OSError):
        while True:
            os.posix_fallocate(file.fileno(), size, BLOCK)
            size += BLOCK
