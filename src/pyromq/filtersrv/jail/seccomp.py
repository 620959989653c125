"""The kernel's fence: from `lock` on, this process can do little more than read, write, get memory and end.

Nothing can be opened, connected, started, traced or signalled: such calls fail with EPERM. Reading and writing need no
rule by descriptor, since only the two pipes are open and nothing can open more. No memory can be executable.
The program is classic BPF over `struct seccomp_data`: number at 0, architecture at 4, argument n at 16 + 8n.
"""

import ctypes
import platform
import struct
import sys
from dataclasses import dataclass
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2

_LOAD: Final = 0x20  # A = 32 bits at k
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | 1  # the call fails with EPERM
_KILL: Final = 0x80000000

_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_PROTECTION_AT: Final = 16 + 8 * 2
_PROT_EXEC: Final = 4
_X32_BIT: Final = 0x40000000


@dataclass(frozen=True)
class Architecture:
    """How the kernel knows a machine, and the numbers of what is allowed on it."""

    audit: int
    mmap: int
    allowed: tuple[int, ...]


# read write munmap brk rt_sigprocmask rt_sigreturn mremap madvise setitimer sigaltstack sched_yield futex exit
# exit_group restart_syscall clock_gettime gettimeofday getrandom
ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, 9, (0, 1, 11, 12, 14, 15, 25, 28, 38, 131, 24, 202, 60, 231, 219, 228, 96, 318)),
    "aarch64": Architecture(
        0xC00000B7, 222, (63, 64, 215, 214, 135, 139, 216, 233, 103, 132, 124, 98, 93, 94, 128, 113, 169, 278)
    ),
}


class SeccompError(Exception):
    """This machine cannot be told to hold the process; uploaded code must not run on it."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def program(machine: Architecture) -> bytes:
    """The rules as the kernel takes them, 8 bytes each: code, jump if true, jump if false, operand."""
    rules = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL),
    ]
    for number in machine.allowed:
        rules += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    rules += [
        (_JUMP_EQUAL, 1, 0, machine.mmap),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _PROTECTION_AT),
        (_JUMP_ANY_BIT, 0, 1, _PROT_EXEC),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *rule) for rule in rules)


def lock() -> None:
    """Apply the rules to this process for good. Raises SeccompError where that is not possible."""
    machine = ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise SeccompError(f"filter classes need Linux on {' or '.join(ARCHITECTURES)}, not {platform.platform()}")
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program(machine), len(program(machine)))
    rules = _Program(len(code) // 8, ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(rules)):
        raise SeccompError(f"the kernel refuses to hold the process: seccomp fails with errno {ctypes.get_errno()}")
