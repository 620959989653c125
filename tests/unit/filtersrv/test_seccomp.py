"""The kernel's rules, run by a small machine of our own: which calls pass, fail and kill."""

import struct

import pytest

from pyromq.filtersrv.jail.seccomp import ARCHITECTURES, Architecture, program

ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000
READ_WRITE, EXECUTE = 3, 7


def judge(machine: Architecture, number: int, *, protection: int = 0, audit: int | None = None) -> int:
    """What the program says to one system call."""
    data = struct.pack("=IIQ6Q", number, machine.audit if audit is None else audit, 0, 0, 0, protection, 0, 0, 0)
    rules = list(struct.iter_unpack("=HBBI", program(machine)))
    at = accumulator = 0
    while True:
        code, if_true, if_false, operand = rules[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
            continue
        holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[code]
        at += if_true if holds else if_false


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_only_what_is_named_passes(name: str) -> None:
    # F-06
    machine = ARCHITECTURES[name]
    passing = {number for number in range(1000) if judge(machine, number) == ALLOW}
    assert passing == {*machine.allowed, machine.mmap}
    assert {judge(machine, number) for number in range(1000)} == {ALLOW, REFUSE}
    assert len(set(machine.allowed)) == 18


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_memory_is_never_executable(name: str) -> None:
    machine = ARCHITECTURES[name]
    assert judge(machine, machine.mmap, protection=READ_WRITE) == ALLOW
    assert judge(machine, machine.mmap, protection=EXECUTE) == REFUSE


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_calls_of_another_kind_kill(name: str) -> None:
    machine = ARCHITECTURES[name]
    assert judge(machine, machine.allowed[0], audit=0x40000003) == KILL
    assert judge(machine, machine.allowed[0] | 0x40000000) == KILL


def test_dangerous_calls_by_number() -> None:
    # On x86-64: open, socket, clone, fork, execve, kill, ptrace, mprotect, prlimit64, openat, clone3.
    for number in (2, 41, 56, 57, 59, 62, 101, 10, 302, 257, 435):
        assert judge(ARCHITECTURES["x86_64"], number) == REFUSE
