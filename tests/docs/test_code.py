"""Every code block of README and docs that can run does, against a server of its own.

Python blocks of a page run as one program, in order; shell blocks run line by line with the same server.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message, Producer
from tests.docs.pages import ROOT, Block, blocks, pages
from tests.integration.client.clusters import standalone_beside

BOUND = 300.0
RUN = ("python", "sh")
TOLD = "127.0.0.1:9876"
"""The name server that the pages talk about."""

Steps = list[Block]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with standalone_beside(tmp_path_factory.mktemp("docs")) as server:
        with Producer("docs", namesrv=server.namesrv_address) as producer:
            producer.send(Message("orders", b"an order that was there before", tags="open"))
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        yield {**os.environ, "NAMESRV_ADDR": server.namesrv_address, "PATH": path, "PYTHONPATH": str(ROOT)}


def runnable(page: Path) -> Steps:
    return [block for block in blocks(page) if block.language in RUN and block.why is None]


def together(steps: Steps) -> list[Block]:
    """Neighbouring Python blocks as one program: later ones use the names of earlier ones."""
    whole: list[Block] = []
    python = "\n".join(block.text for block in steps if block.language == "python")
    for block in steps:
        if block.language != "python":
            whole.append(block)
        elif not any(other.language == "python" for other in whole):
            whole.append(Block("python", python, block.line, None))
    return whole


PAGES = [page for page in pages() if runnable(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs(page: Path, environment: dict[str, str], tmp_path: Path) -> None:
    for block in together(runnable(page)):
        if "pyspark" in block.text and shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        text = block.text.replace(TOLD, environment["NAMESRV_ADDR"])
        command = [sys.executable, "-c", text] if block.language == "python" else ["bash", "-ec", text]
        done = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            input="\n",  # examples that wait for Enter
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        told = f"{page.relative_to(ROOT)}:{block.line} exits with {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, told


def test_what_does_not_run_says_why() -> None:
    for page in pages():
        for block in blocks(page):
            if block.why is not None:
                assert len(block.why) > 5, f"{page.name}:{block.line}"
