"""The story of a full disk: senders are told, readers go on, and with space again nobody has to do anything."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.protocol.codes import ResponseCode
from tests import processes
from tests.faults.masters import until
from tests.integration.broker.servers import Peer

SMALL = (
    *("--mapped-file-size-commit-log", str(256 << 10)),
    *("--mapped-file-size-consume-queue", "6000"),
    *("--max-hash-slot-num", "1000"),
    *("--max-index-num", "5000"),
    *("--clean-resource-interval", "100"),
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own. Needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S607 - wherever the system has it


def fill(file: Path) -> None:
    """Somebody else takes all the space there is."""
    with file.open("wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue


async def test_recovery_after_a_full_disk_needs_no_hand(disk: Path) -> None:
    server = processes.broker(disk / "store", *SMALL)
    await asyncio.to_thread(server.start)
    try:
        acknowledged: list[bytes] = []
        async with Peer(server["broker"]) as peer:

            async def send() -> int:
                body = b"%d " % len(acknowledged) + bytes(8_000)
                answer = await peer.send("orders", body)
                if answer.code == ResponseCode.SUCCESS:
                    acknowledged.append(body)
                return answer.code

            for _ in range(20):
                assert await send() == ResponseCode.SUCCESS
            assert await peer.messages("orders")  # and the group is known
            await asyncio.to_thread(fill, disk / "ballast")

            async def refused() -> bool:
                return await send() != ResponseCode.SUCCESS

            await until(refused)
            assert len(await peer.messages("orders", 5, count=1)) == 1, "what is there can be read"
            assert server.is_running
            (disk / "ballast").unlink()

            async def taken() -> bool:
                return await send() == ResponseCode.SUCCESS

            await until(taken)
            assert [await send() for _ in range(5)] == [ResponseCode.SUCCESS] * 5
            found: list[bytes] = []
            while page := await peer.messages("orders", len(found)):
                found += [bytes(message.body) for message in page]
            assert found == acknowledged
        assert await asyncio.to_thread(server.terminate) == 0
    finally:
        await asyncio.to_thread(server.kill)
