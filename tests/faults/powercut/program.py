"""How a Python program is started on a disk that forgets."""

import random
import runpy
import sys
from pathlib import Path

from tests.faults.powercut.disk import Disk
from tests.faults.powercut.layer import Layer

ROOT = Path(__file__).parents[3]


def on_disk(folder: Path) -> list[str]:
    """What goes before `-m module …` in a command line, to be run in `ROOT`."""
    return [sys.executable, "-m", "tests.faults.powercut", str(folder)]


def run(folder: Path, arguments: list[str]) -> None:
    """Run `-m module …` as Python would, on the disk."""
    flag, module, *rest = arguments
    assert flag == "-m", arguments
    folder.mkdir(parents=True, exist_ok=True)
    disk = Disk(folder)
    disk.open()
    Layer(disk, random.Random()).install()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
