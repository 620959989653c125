"""Fuzz one target for a while: `python -m tests.fuzz servers --seconds 300`. Findings are kept in `.fuzz/`."""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

from pyromq.native import core

FOLDER = Path(".fuzz")
NATIVE = ("twins", "decoders")
"""Those that compare twins, and so need the native core."""
NAMES = ("frames", "bodies", "records", "expressions", "fields", "http2", "servers", *NATIVE)
LONGEST = 16_384


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", default=NAMES, help=f"of {', '.join(NAMES)}; all of them unless given")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: %(default)s)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := [name for name in given.target if name not in NAMES]:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(NAMES)}")
    try:
        importlib.import_module("atheris")
    except ImportError:
        parser.error("the fuzzer is not installed: uv sync --group fuzz, or make fuzz")
    if given.here:
        fuzz(given.target[0], given.seconds)
        return 0
    if not core.on and set(NATIVE) & set(given.target):
        sys.stdout.write(f"{' and '.join(NATIVE)} are left out, there are no twins to compare: {core}\n")
        given.target = [name for name in given.target if name not in NATIVE]
    results = {name: _apart(name, given.seconds) for name in given.target}
    for name, code in results.items():
        verdict = "nothing found" if code == 0 else f"FOUND SOMETHING: see {FOLDER / name}"
        sys.stdout.write(f"{name:12} {verdict}\n")
    return int(any(results.values()))


def _apart(name: str, seconds: int) -> int:
    """A process for each target: the fuzzer ends its process."""
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(seconds), "--here"]
    return subprocess.run(command, check=False, env=os.environ | {"PYTHONHASHSEED": "0"}).returncode


def fuzz(name: str, seconds: int) -> None:
    """Fuzz in this process; does not return."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["pyromq"]):
        targets = importlib.import_module("tests.fuzz.targets").TARGETS
    target = targets[name]
    corpus = FOLDER / name
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = [f"-max_total_time={seconds}", f"-artifact_prefix={corpus}/finding-", f"-max_len={LONGEST}"]
    with target.open() as feed:
        atheris.Setup([sys.argv[0], *flags, "-print_final_stats=1", str(corpus)], feed)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
