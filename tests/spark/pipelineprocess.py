"""A pipeline as a process that can be killed: `python -m tests.spark.pipelineprocess FILE` runs it once."""

import os
import sys
from pathlib import Path

from pyromq.spark.pipeline.definition.yamlfile import load
from pyromq.spark.pipeline.run.runner import PipelineRun
from tests.spark.crashing import GROUP


def main() -> None:
    os.environ[GROUP] = str(os.getpgid(0))
    run = PipelineRun(load(Path(sys.argv[1])), on_progress=say, on_restart=say)
    run.run(once=True)


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201 - read by the test when it fails


if __name__ == "__main__":
    main()
