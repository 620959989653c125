"""Disks that a killed run left mounted are known by their owner, and those of others are left alone."""

from tests.faults.harness.cluster import orphaned_disks

MOUNTS = """\
proc /proc proc rw 0 0
pyromq-faults-100 /tmp/dead/a0.disk tmpfs rw,size=49152k 0 0
pyromq-faults-200 /tmp/alive/a0.disk tmpfs rw,size=49152k 0 0
pyromq-faults /tmp/nobody/a0.disk tmpfs rw,size=49152k 0 0
pyromq-faults-x /tmp/odd/a0.disk tmpfs rw,size=49152k 0 0
tmpfs /tmp/other tmpfs rw 0 0
"""


def test_only_those_of_dead_owners() -> None:
    assert orphaned_disks(MOUNTS, lambda process: process == 200) == ["/tmp/dead/a0.disk"]  # noqa: S108 - only a name
