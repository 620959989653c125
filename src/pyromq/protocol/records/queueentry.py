"""One entry of a consume queue: physical offset 8 · record size 4 · tag hash 8.

In queues of the delay levels the tag hash is the time at which the message is due.
"""

from struct import Struct
from typing import Final

ENTRY: Final = Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size
