"""Why a store does not accept something at the moment: one bit for each reason, RocketMQ's numbers."""

from enum import IntFlag


class Flag(IntFlag):
    NOT_READABLE = 1 << 0
    NOT_WRITEABLE = 1 << 1
    LOGIC_QUEUE_ERROR = 1 << 2
    INDEX_FILE_ERROR = 1 << 3
    DISK_FULL = 1 << 4  # the disk is fuller than the warning ratio
    FENCED = 1 << 5
    LOGIC_DISK_FULL = 1 << 6
    # The rest is ours, RocketMQ has no such bits.
    NO_SPACE = 1 << 7  # the last allocation for the commit log failed
    BUSY = 1 << 8  # as many messages as allowed wait for the disk


# As plain numbers: these are looked at with every request, and operations on flags are calls into Python.
_NOT_READABLE = int(Flag.NOT_READABLE)
_WRITE_BITS = ~int(Flag.NOT_READABLE | Flag.BUSY)

_REASONS = {
    Flag.NOT_READABLE: "reading is switched off",
    Flag.NOT_WRITEABLE: "writing is switched off after an I/O error or by an administrator",
    Flag.LOGIC_QUEUE_ERROR: "a consume queue cannot be written",
    Flag.INDEX_FILE_ERROR: "the index cannot be written",
    Flag.DISK_FULL: "the disk is fuller than diskSpaceWarningLevelRatio",
    Flag.FENCED: "another broker is the master now",
    Flag.LOGIC_DISK_FULL: "no disk space left for consume queues",
    Flag.NO_SPACE: "no disk space left for the commit log",
}


class RunningFlags:
    """The bits that are set. Zero means that everything works."""

    __slots__ = ("bits",)

    def __init__(self) -> None:
        self.bits = 0  # a plain number, see above

    def set(self, flag: Flag) -> bool:
        """Returns whether it was clear before, so that the caller logs a change once."""
        before, self.bits = self.bits, self.bits | int(flag)
        return before != self.bits

    def clear(self, flag: Flag) -> bool:
        """Returns whether it was set before."""
        before, self.bits = self.bits, self.bits & ~int(flag)
        return before != self.bits

    def has(self, flag: Flag) -> bool:
        return bool(self.bits & flag)

    @property
    def readable(self) -> bool:
        return not self.bits & _NOT_READABLE

    @property
    def writeable(self) -> bool:
        return not self.bits & _WRITE_BITS

    def reason(self) -> str:
        """In words, why writes are refused."""
        return "; ".join(text for flag, text in _REASONS.items() if self.bits & flag) or "nothing is wrong"
