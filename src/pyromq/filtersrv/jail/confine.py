"""The process' fence: it gives up its rights, its descriptors and most of what it could ask the system for.

Order matters: what needs a right comes before the right goes, and the kernel's lock is last.
"""

import contextlib
import ctypes
import os
import resource
import signal
from typing import Final

from pyromq.filtersrv.jail import seccomp

NOBODY: Final = 65534
NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4


def confine(memory: int) -> None:
    """Lock this process up with `memory` bytes of address space. Raises OSError, ValueError or SeccompError."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.nice(NICENESS)
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_DATA, memory)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 0)
    _limit(resource.RLIMIT_MEMLOCK, 0)
    with contextlib.suppress(AttributeError):
        _limit(resource.RLIMIT_MSGQUEUE, 0)
    # The limit on processor time is a signal, which whoever started us may have switched off.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    drop_rights()
    _limit(resource.RLIMIT_NPROC, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # After the change of user, which clears it: a filter server that dies takes its jails along, busy or not.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    seccomp.lock()


def drop_rights() -> None:
    """Be nobody, if that can be chosen; else stay the user that the filter server runs as."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
