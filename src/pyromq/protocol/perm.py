"""Permission bits of topics and brokers."""

INHERIT = 1
WRITE = 2
READ = 4
READ_WRITE = READ | WRITE


def is_readable(perm: int) -> bool:
    return perm & READ != 0


def is_writable(perm: int) -> bool:
    return perm & WRITE != 0


def is_inherited(perm: int) -> bool:
    """Whether a topic may be the template of topics created on the first send."""
    return perm & INHERIT != 0
