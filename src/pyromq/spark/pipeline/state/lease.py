"""Who may use a checkpoint in an object store, which has no locks: numbered leases, of which the highest counts.

Of all who create the next number one succeeds. The holder renews its lease; whoever wants it watches, and takes the
next number only when nothing was renewed for `TERM` seconds of its own clock, so that clocks need not agree. A holder
that slept longer finds a higher number and ends. What it does before that is caught by the commits themselves: each
batch counts once, whoever writes it.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pyromq.errors import PyroMQError
from pyromq.spark.storage.store import Store

TERM = 30.0
"""Seconds without a renewal after which a lease is free."""
RENEWAL = 8.0
LOOK = 2.0
PREFIX = "lease-"


class LeaseHeldError(PyroMQError):
    """Somebody else has it."""


class Holder(msgspec.Struct, kw_only=True):
    """Whose lease it is."""

    owner: str
    machine: str | None
    host: str
    pid: int
    renewed: float
    """Unix time."""
    released: bool = False

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


class Lease:
    """The lease of one folder."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._owner = uuid.uuid4().hex
        self._number = -1

    def take(self) -> None:
        """Raises LeaseHeldError when another holds it, also if that turns out only after up to `TERM` seconds."""
        number, holder = self._highest()
        if holder is not None and not _is_free(holder):
            self._watch(number, holder)
        try:
            self._store.create(_name(number + 1), self._signed())
        except FileExistsError:
            raise LeaseHeldError("another process was quicker") from None
        self._number = number + 1
        self._store.delete([_name(each) for each in self._numbers() if each < self._number])

    def renew(self) -> None:
        """Raises LeaseHeldError when another has taken it over."""
        number, holder = self._highest()
        if number > self._number:
            raise LeaseHeldError(f"{holder} has taken it over")
        self._store.write(_name(self._number), self._signed())

    def release(self) -> None:
        """Let the next one in at once."""
        if self._highest()[0] == self._number:
            self._store.write(_name(self._number), self._signed(released=True))

    def is_held(self) -> bool:
        """Whether somebody seems to have it; clocks of machines must roughly agree for that."""
        holder = self._highest()[1]
        return holder is not None and not _is_free(holder) and self._wall_clock() - holder.renewed < TERM

    def _watch(self, number: int, holder: Holder) -> None:
        end = self._clock() + TERM
        while self._clock() < end:
            self._sleep(LOOK)
            if self._highest() != (number, holder):
                raise LeaseHeldError(str(self._highest()[1] or holder))

    def _highest(self) -> tuple[int, Holder | None]:
        number = max(self._numbers(), default=-1)
        if number < 0:
            return number, None
        try:
            return number, msgspec.json.decode(self._store.read(_name(number)), type=Holder)
        except FileNotFoundError:  # the next number was taken, and this one deleted
            raise LeaseHeldError("another process was quicker") from None

    def _numbers(self) -> list[int]:
        return [int(entry.name[len(PREFIX) :]) for entry in self._store.list() if entry.name.startswith(PREFIX)]

    def _signed(self, *, released: bool = False) -> bytes:
        made = Holder(
            owner=self._owner,
            machine=_machine(),
            host=socket.gethostname(),
            pid=os.getpid(),
            renewed=self._wall_clock(),
            released=released,
        )
        return msgspec.json.encode(made)


@contextmanager
def held(lease: Lease, on_loss: Callable[[str], None]) -> Iterator[None]:
    """Hold a lease meanwhile; `on_loss` is told, from a thread, when it is or may be another's.

    Raises LeaseHeldError.
    """
    lease.take()
    done = threading.Event()

    def renew() -> None:
        last = time.monotonic()
        while not done.wait(RENEWAL):
            try:
                lease.renew()
                last = time.monotonic()
            except LeaseHeldError as error:
                on_loss(str(error))
                return
            except (PyroMQError, OSError) as error:
                if time.monotonic() - last > TERM:
                    on_loss(f"it could not be renewed for {TERM:.0f} s: {error}")
                    return

    keeper = threading.Thread(target=renew, name="pyromq-lease", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
        lease.release()


def _name(number: int) -> str:
    return f"{PREFIX}{number:09d}"


def _is_free(holder: Holder) -> bool:
    """Whether nobody can have it: it was given back, or its process on this very machine is gone."""
    if holder.released:
        return True
    if holder.machine is None or holder.machine != _machine():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine() -> str | None:
    """What has one table of processes: a boot of a machine, and in it a container. None where that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return None
