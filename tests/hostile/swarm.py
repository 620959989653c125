"""A process that only holds connections open: `python -m tests.hostile.swarm host:port count`.

Half of them begin a frame and leave it at that. Says how many are up, then waits for the end of its standard input.
"""

import socket
import struct
import sys
from contextlib import suppress

HALF_A_FRAME = struct.pack(">I", 1 << 20) + b"\x00"


def main(address: str, count: int) -> None:
    host, _, port = address.rpartition(":")
    held = []
    for number in range(count):
        sock = socket.create_connection((host, int(port)), timeout=60)
        if number % 2:
            with suppress(OSError):  # it may be one too many, and closed already
                sock.sendall(HALF_A_FRAME)
        held.append(sock)
    sys.stdout.write(f"{len(held)}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
