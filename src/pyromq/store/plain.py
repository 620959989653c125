"""The plain record: IPv4 hosts and a topic of at most 127 bytes, which nearly all records are.

`protocol.record` owns the layout and does all the others. The two hot loops of the store, appending and walking, spell
out this one case; a test holds both against `protocol.record`.

  0 size 4 · 4 magic 4 · 8 body CRC 4 · 12 queue id 4 · 16 flag 4 · 20 queue offset 8 · 28 physical offset 8
  36 system flag 4 · 40 born time 8 · 48 born host 8 · 56 store time 8 · 64 store host 8 · 72 reconsume times 4
  76 prepared transaction offset 8 · 84 body length 4 · 88 body · topic length 1 · topic · properties length 2
"""

from struct import Struct
from typing import Final

PREFIX: Final = Struct(">5i2qiq8sq8siqi")
"""Everything before the body, in the order above."""
FACTS: Final = Struct(">3ii4x2qi16xq20xi")
"""Size, magic, body CRC, queue id, queue offset, physical offset, system flag, store time, body length."""
PROPERTIES_LENGTH: Final = Struct(">h")
BODY: Final = PREFIX.size
PREPARED: Final = 76
MIN_SIZE: Final = BODY + 1 + PROPERTIES_LENGTH.size
MAX_TOPIC: Final = 127
