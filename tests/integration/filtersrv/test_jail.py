"""What hostile filter classes get: a real jail for each, and what its keeper says about its end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.filtersrv.errors import JailError
from pyromq.filtersrv.frames import MAX_ANSWER, FilterContext, FilterMessage, Load
from pyromq.filtersrv.records import BATCH_BYTES, MAX_BODY
from pyromq.filtersrv.worker import JailLimits, Worker
from tests.integration.client.clusters import asyncio_test
from tests.integration.filtersrv.serving import one_line

MIB = 1 << 20
LIMITS = JailLimits(memory=128 * MIB, cpu=1.0, wall=60.0, start=60.0)
MESSAGE = FilterMessage(topic="t", body=b'{"n": 7}', properties={"TAGS": "a", "KEYS": "k1 k2"}, message_id="id")


@asynccontextmanager
async def jail(source: str, limits: JailLimits = LIMITS) -> AsyncIterator[Worker]:
    worker = await Worker.start(limits)
    try:
        await worker.load(Load("Probe", source, FilterContext("group", "t")))
        yield worker
    finally:
        await worker.kill()


async def verdict(source: str, limits: JailLimits = LIMITS) -> bool:
    async with jail(source, limits) as worker:
        (passes,) = await worker.match([MESSAGE])
        return passes


@pytest.mark.parametrize(
    "body",
    [
        "return msg.tags == 'a' and msg.keys == ['k1', 'k2'] and msg.get('nothing', 'x') == 'x'",
        "return json_loads(msg.body)['n'] == 7",
        "return context.consumer_group == 'group' and context.topic == msg.topic",
        "return msg.body.decode('utf-16-le', 'replace') != '' and f'{msg.topic:>4}' == '   t'",
        "return sorted({k: len(v) for k, v in msg.properties.items()}.values())[-1] == 5",
    ],
)
@asyncio_test
async def test_what_filters_can_do(body: str) -> None:
    # F-06
    assert await verdict(one_line(body))


HOSTILE = {
    "an infinite loop": ("while True: pass", "used more than 1 s of processor time"),
    "a loop in C": ("return 3 ** (7 ** 30) > 0", "used more than 1 s of processor time|memory"),
    "10 GB at once": ("return len(b'x' * 10_000_000_000) > 0", "MemoryError"),
    "10 GB bit by bit": ("many = []\n        while True: many.append(b'x' * 1_000_000)", "MemoryError"),
    "deep recursion": ("return self.match(msg, context)", "RecursionError"),
    "an exception": ("return 1 / 0 > 0", r"ZeroDivisionError: division by zero \(line 3\)"),
    "an exception with a huge text": ("raise ValueError('x' * 50_000_000)", "ValueError: xxx"),
    "no verdict": ("return 'yes'", "must return True or False, not str"),
    "a file": ("return open('/etc/passwd') is None", "name 'open' is not defined"),
    "a class walk": ("return msg.__class__.__mro__[1].__subclasses__()", "invalid attribute name"),
    "a class walk by getattr": ("return getattr(msg, '__cl' + 'ass__') is None", "invalid attribute name"),
    "a class walk by format": ("return '{0.__class__}'.format(msg) == ''", "format"),
    "a class walk by format_map": ("return str.format_map('{x.__class__}', {'x': msg}) == ''", "format"),
    "a frame of a generator": ("return (x for x in ()).gi_frame.f_back is None", "gi_frame"),
    "globals": ("return self.match.__globals__ is None", "invalid attribute name"),
    "an import": ("import os\n        return True", "imports are not available"),
    "an import by name": ("return __import__('os') is None", "invalid (variable )?name"),
    "a socket": ("from socket import socket\n        return True", "imports are not available"),
    "eval": ("return eval('1') == 1", "[Ee]val calls are not allowed"),
    "a fork bomb": ("import os\n        while True: os.fork()", "imports are not available"),
    "output": ("print('x' * 10)\n        return True", "print is not available"),
    "a change to what is not its own": ("msg.topic = 'other'\n        return True", "TypeError"),
    "a change to a builtin": ("str.join = None\n        return True", "TypeError"),
}


@pytest.mark.parametrize("attempt", HOSTILE)
@asyncio_test
async def test_a_hostile_class_is_stopped_and_named(attempt: str) -> None:
    # F-06
    body, reason = HOSTILE[attempt]
    worker: Worker | None = None
    with pytest.raises(JailError, match=reason) as caught:
        async with jail(one_line(body)) as worker:
            await worker.match([MESSAGE])
    assert len(str(caught.value)) < 1000
    if worker is not None:
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("while True: pass", "used more than 1 s of processor time"),
        ("(" * 5000, "does not compile"),
        ("x = " + "-" * 100_000 + "1", "does not compile|RecursionError|MemoryError|ended by"),
        ("class Probe:\n    pass", "no method match"),
        ("class Probe:\n    match = 1", "no method match"),
        ("x = 1", "no class 'Probe'"),
        (
            "class Probe:\n    def __init__(self): raise KeyError('k')\n    def match(self, m, c): return True",
            "KeyError",
        ),
    ],
)
@asyncio_test
async def test_a_class_that_is_none_is_refused_when_loaded(source: str, reason: str) -> None:
    # F-04
    with pytest.raises(JailError, match=reason):
        await verdict(source)


@asyncio_test
async def test_the_largest_body_fits() -> None:
    largest = FilterMessage(topic="t", body=bytes(MAX_BODY), properties={})
    filler = FilterMessage(topic="t", body=bytes(BATCH_BYTES), properties={})
    async with jail(one_line(f"return len(msg.body) == {MAX_BODY}")) as worker:
        assert await worker.match([filler, largest]) == [False, True]


@asyncio_test
async def test_a_class_that_waits_is_stopped_by_the_keeper() -> None:
    # Nothing in the language waits without computing, so the keeper's own clock is tried with less time than a start.
    async with jail(one_line("return len([i for i in range(10_000_000)]) > 0")) as worker:
        worker.limits = replace(LIMITS, wall=0.001)
        with pytest.raises(JailError, match=r"did not finish within 0\.001 s"):
            await worker.match([MESSAGE])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import os\nwhile True: os.write(1, b'\\xff' * 65536)", "bytes where at most"),
        ("import os\nos.write(1, (5).to_bytes(4) + b'hello')\nimport time\ntime.sleep(600)", "nonsense"),
        ("import os\nos.abort()", "ended by SIGABRT"),
        ("import time\ntime.sleep(600)", "did not come up within"),
    ],
)
@asyncio_test
async def test_a_process_that_broke_out_still_meets_its_keeper(script: str, reason: str) -> None:
    # Not our program at all: what its keeper takes from it is bounded in size, form and time.
    limits = JailLimits(memory=256 * MIB, cpu=1.0, wall=60.0, start=3.0 if "come up" in reason else 60.0)
    with pytest.raises(JailError, match=reason):
        await Worker.start(limits, [sys.executable, "-I", "-S", "-c", script])
    assert MAX_ANSWER < MIB


WITHOUT_LIBRARY = """
import runpy, sys
sys.modules["RestrictedPython"] = None
sys.argv[1:] = ["134217728", "1000"]
runpy.run_module("pyromq.filtersrv.jail", run_name="__main__")
"""


@asyncio_test
async def test_without_the_library_it_is_said_what_to_install() -> None:
    with pytest.raises(JailError, match=r"pip install 'pyromq\[filters\]'"):
        await Worker.start(LIMITS, [sys.executable, "-c", WITHOUT_LIBRARY])


ATTEMPTS = """
import ctypes, json, mmap, os, resource, signal, socket, sys, threading
from pyromq.filtersrv.jail.confine import confine
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
inherited = os.open("/dev/null", os.O_RDWR)
confine(256 << 20)

def execute(): os.execv("/bin/true", ["true"])
def native(): mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
def traced():
    if libc.ptrace(16, parent, 0, 0) != 0: raise PermissionError("ptrace")
def regained():
    if libc.syscall(105, 0) != 0: raise PermissionError("setuid")
attempts = {
    "open": lambda: open("/etc/passwd"),
    "create": lambda: open("/tmp/pyromq-broke-out", "w"),
    "list": lambda: os.listdir("/"),
    "unlink": lambda: os.unlink("/tmp/pyromq-none"),
    "socket": lambda: socket.socket(),
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "fork": os.fork,
    "thread": lambda: threading.Thread(target=print).start(),
    "exec": execute,
    "kill": lambda: os.kill(parent, 0),
    "inherited descriptor": lambda: os.write(inherited, b"x"),
    "more memory": lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)),
    "native code": native,
    "ptrace": traced,
    "root again": regained,
    "much memory": lambda: bytearray(10 << 30),
}
outcome = {}
for name, attempt in attempts.items():
    try:
        attempt()
        outcome[name] = "DONE"
    except (OSError, RuntimeError, MemoryError, ValueError) as error:
        outcome[name] = type(error).__name__
os.write(1, json.dumps(outcome).encode())
os._exit(0)
"""


def test_the_jail_holds_without_the_language() -> None:
    # F-06: unrestricted Python behind the locks of the process and the kernel only.
    done = subprocess.run([sys.executable, "-c", ATTEMPTS], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    outcome = json.loads(done.stdout)
    assert len(outcome) == 16
    assert "DONE" not in outcome.values(), outcome


def process_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@asyncio_test
async def test_the_jail_has_no_rights_left() -> None:
    async with jail(one_line("return True")) as worker:
        status = process_status(worker.pid)
    assert status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == 0
    assert status["Threads"] == "1"
    if os.geteuid() == 0:
        assert status["Uid"].split() == ["65534"] * 4
        assert status["Groups"].split() == []


KEEPER = """
import asyncio, os
from pyromq.filtersrv.frames import FilterContext, FilterMessage, Load
from pyromq.filtersrv.worker import JailLimits, Worker

async def keep():
    worker = await Worker.start(JailLimits(memory=256 << 20, cpu=60.0, wall=600.0))
    source = "class Probe:\\n    def match(self, msg, context):\\n        while True: pass"
    await worker.load(Load("Probe", source, FilterContext("g", "t")))
    asyncio.create_task(worker.match([FilterMessage("t", b"", {})]))
    await asyncio.sleep(0.2)
    os.write(1, b"%d\\n" % worker.pid)
    await asyncio.sleep(600)

asyncio.run(keep())
"""


def test_a_busy_jail_ends_with_its_keeper() -> None:
    with subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        assert is_alive(pid)
        keeper.kill()
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether the process exists and has not just to be reaped."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
