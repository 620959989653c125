"""What to do with messages that are not as they should be."""

import enum


class BadRecords(enum.StrEnum):
    """What to do with a body that is not what its schema promises."""

    FAIL = "fail"
    DROP = "drop"
    NULL = "null"
    KEEP = "keep"


class CorruptRecords(enum.StrEnum):
    """What to do with a record that is damaged: its checksum, its compression or its frame does not hold."""

    FAIL = "fail"
    SKIP = "skip"
    KEEP = "keep"
