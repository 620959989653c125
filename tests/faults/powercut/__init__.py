"""Power cuts: a program runs on a disk that forgets what was not synced.

    python -m tests.faults.powercut FOLDER -m pyromq broker …     # the program, on that disk
    cut(FOLDER, seed)                                             # once it was killed (-9): what the disk has

A disk keeps the contents of a file as of its last `fsync`, and the names in a folder as of the last `fsync` of that
folder. Of everything later it may have any part, in any order: the seed says which.
"""

from tests.faults.powercut.disk import NOTHING, cut
from tests.faults.powercut.program import on_disk

__all__ = ["NOTHING", "cut", "on_disk"]
