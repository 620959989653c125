"""Two name servers, two masters with a slave each, and clients: every one a process on a machine of its own."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from tests.faults.harness.machine import set_state
from tests.faults.harness.network import Machine, Network

ROOT = Path(__file__).parents[3]
START_BOUND = 300.0
STOP_BOUND = 120.0
"""Nothing is expected to take so long, on however busy a machine."""
NAMESRV_PORT = 9876
BROKER_PORT = 10911
HA_PORT = BROKER_PORT + 1
DISK = 48 << 20
OWNED_BY = "pyromq-faults-"
"""Begins the name of a mounted disk; behind it is the process that mounted it."""

BROKERS = {"broker-a": ("a0", "a1"), "broker-b": ("b0", "b1")}
"""Broker names, and the machines of master and slave."""
NAME_SERVERS = ("n1", "n2")
MASTERS = tuple(pair[0] for pair in BROKERS.values())
SLAVES = tuple(pair[1] for pair in BROKERS.values())
CLIENTS = ("producers", "consumers-1", "consumers-2")
SERVERS = (*NAME_SERVERS, *MASTERS, *SLAVES)

SETTINGS = {
    "fastListen": "false",
    "flushDiskType": "SYNC_FLUSH",
    "slaveReadEnable": "true",
    "mappedFileSizeCommitLog": str(128 << 10),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "mappedFileSizeTimerLog": str(1 << 20),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "cleanFileForciblyEnable": "false",
    "cleanResourceInterval": "500",
    "messageDelayLevel": "1s 2s 3s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    "flushConsumerOffsetInterval": "500",
    "flushDelayOffsetInterval": "500",
    "timerPrecisionMs": "100",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "1000",
    "channelExpiredTimeout": "10000",
    "registerNameServerPeriod": "10000",
    "registerBrokerTimeoutMills": "3000",
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "3000",
    "slaveTimeout": "1500",
}
"""Files that are small enough to be rolled, and times that are short enough to pass in a test."""

ACTING = {
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "brokerHeartbeatInterval": "300",
    "brokerNotActiveTimeoutMillis": "2000",
    "syncBrokerMemberGroupPeriod": "300",
}
"""Added where slaves act for their masters."""


class Process:
    """A process on a machine; what it logs is kept in a file."""

    def __init__(self, machine: Machine, folder: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.machine = machine
        self.log = folder / f"{machine.name}.log"
        self.state = folder / f"{machine.name}.state"
        set_state(self.state)
        self._arguments = arguments
        self._environ = dict(os.environ) | dict(environ)
        self._environ |= {"MACHINE_ADDRESS": machine.own, "MACHINE_STATE": str(self.state)}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start, and wait for the line that says that it is ready. Raises AssertionError when it ends instead."""
        with self.log.open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.faults.harness.machine",
                *self._arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environ,
                cwd=ROOT,
            )
        assert process.stdout is not None
        async with asyncio.timeout(START_BOUND):
            line = await process.stdout.readline()
        if not line:
            await process.wait()
            raise AssertionError(f"{self.machine.name} ended with {process.returncode}: {self.log.read_text()[-2000:]}")
        json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        """Does nothing to a process that has ended."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def kill(self) -> None:
        """As a crash would."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> int | None:
        """Ask it to stop; returns its exit code, None when it had to be killed."""
        if self._process is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_BOUND):
                return await self._process.wait()
        except TimeoutError:
            await self.kill()
            return None


class Cluster:
    """All machines by name; `role` is the masters', and `acting` says whether slaves act for them."""

    def __init__(self, folder: Path, network: Network, role: str, *, acting: bool) -> None:
        self.folder = folder
        self.network = network
        self.role = role
        self.acting = acting
        self.processes: dict[str, Process] = {}
        self.history = folder / "history"
        self.history.mkdir(parents=True)
        self._disks: list[Path] = []
        if os.geteuid() == 0:
            for place in orphaned_disks(Path("/proc/mounts").read_text(), _is_alive):
                _unmount(place)
        for name in (*SERVERS, *CLIENTS):
            network.add(name)
        self.name_servers = ";".join(f"{network.machines[name].public}:{NAMESRV_PORT}" for name in NAME_SERVERS)

    async def start(self) -> None:
        """All servers; when it returns, they accept requests."""
        for name in NAME_SERVERS:
            await self.network.listen(self.network.machines[name], NAMESRV_PORT)
        for name in (*MASTERS, *SLAVES):
            await self.network.listen(self.network.machines[name], BROKER_PORT)
        for name in MASTERS:
            await self.network.listen(self.network.machines[name], HA_PORT)
        for name in NAME_SERVERS:
            self._add(name, self._name_server(name))
        for broker, (master, slave) in BROKERS.items():
            self._add(master, self._broker(master, broker, {"brokerRole": self.role, "brokerId": "0"}))
            self._add(slave, self._broker(slave, broker, {"brokerRole": "SLAVE", "brokerId": "1"}))
        await self._start(NAME_SERVERS)
        await self._start((*MASTERS, *SLAVES))

    async def start_clients(self) -> None:
        for name in CLIENTS:
            kind = name.partition("-")[0]
            module = f"tests.faults.harness.{kind}"
            self._add(name, [module, name, self.name_servers, str(self.history / f"{name}.jsonl")])
        await self._start(CLIENTS)

    def address(self, name: str) -> str:
        """The main port of a broker's machine, as others know it."""
        return f"{self.network.machines[name].public}:{BROKER_PORT}"

    def disk(self, name: str) -> Path:
        """Where a broker keeps everything."""
        return self.folder / f"{name}.disk"

    async def close(self) -> None:
        """Kill what still runs, and unmount."""
        for process in self.processes.values():
            await process.kill()
        await self.network.close()
        for disk in self._disks:
            await asyncio.to_thread(_unmount, str(disk))

    def wipe(self, name: str) -> None:
        """Lose what is on a disk."""
        for path in self.disk(name).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def troubles(self) -> list[str]:
        """Servers that ended by themselves, and errors in any log that nobody foresaw."""
        found = [f"{name} is not running" for name in SERVERS if not self.processes[name].running]
        for name, process in self.processes.items():
            _, *traces = process.log.read_text(errors="replace").split("Traceback (most recent call last):\n")
            found += [f"{name}: {_error_of(trace)}" for trace in traces]
        return found

    async def _start(self, names: Sequence[str]) -> None:
        await asyncio.gather(*(self.processes[name].start() for name in names))

    def _add(self, name: str, arguments: Sequence[str]) -> None:
        environ = {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "default"}
        self.processes[name] = Process(self.network.machines[name], self.folder, arguments, environ)

    def _name_server(self, name: str) -> list[str]:
        machine = self.network.machines[name]
        file = self.folder / f"{name}.conf"
        kept = self.folder / name / "kvConfig.json"
        settings = {
            "bindAddress": machine.own,
            "listenPort": str(NAMESRV_PORT),
            "kvConfigPath": str(kept),
            "scanNotActiveBrokerInterval": "500",
            "supportActingMaster": str(self.acting).lower(),
            "notifyMinBrokerIdChanged": str(self.acting).lower(),
        }
        file.write_text(_properties(settings))
        return ["pyromq", "namesrv", "-c", str(file), "--json"]

    def _broker(self, name: str, broker: str, settings: Mapping[str, str]) -> list[str]:
        machine = self.network.machines[name]
        disk = self.disk(name)
        disk.mkdir()
        self._mount(disk)
        everything = {
            **SETTINGS,
            **(ACTING if self.acting else {}),
            **settings,
            "bindAddress": machine.own,
            "brokerIP1": machine.public,
            "listenPort": str(BROKER_PORT),
            "haListenPort": str(HA_PORT),
            "brokerName": broker,
            "namesrvAddr": self.name_servers,
            "storePathRootDir": str(disk / "store"),
        }
        file = self.folder / f"{name}.conf"
        file.write_text(_properties(everything))
        return ["pyromq", "broker", "-c", str(file), "--json"]

    def _mount(self, disk: Path) -> None:
        """A small disk that can be filled, where that is allowed."""
        if os.geteuid() == 0:
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", f"{OWNED_BY}{os.getpid()}", str(disk)]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                self._disks.append(disk)

    def can_be_filled(self, name: str) -> bool:
        """Whether it has a disk of its own."""
        return self.disk(name) in self._disks


def orphaned_disks(mounts: str, alive: Callable[[int], bool]) -> list[str]:
    """Where disks are mounted whose run was killed, out of the text of /proc/mounts. Those of other runs are theirs."""
    found = []
    for line in mounts.splitlines():
        source, place, *_ = line.split()
        owner = source.removeprefix(OWNED_BY)
        if owner != source and owner.isdecimal() and not alive(int(owner)):
            found.append(place)
    return found


def _unmount(place: str) -> None:
    command = ["umount", "-l", place]
    subprocess.run(command, check=False)


def _is_alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _error_of(trace: str) -> str:
    """The line below the frames of a traceback."""
    return next((line for line in trace.splitlines() if not line.startswith(" ")), "an error")


@contextlib.asynccontextmanager
async def running(folder: Path, seed: int, role: str, *, acting: bool) -> AsyncIterator[Cluster]:
    """A cluster whose servers accept requests, gone at the end."""
    cluster = Cluster(folder, Network(random.Random(seed)), role, acting=acting)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()
