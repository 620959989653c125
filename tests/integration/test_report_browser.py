"""Reports as a browser shows them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pyromq.cli.report import Report, bars, lines

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_finds_everything_in_a_report(tmp_path: Path) -> None:
    report = Report("Orders & more")
    report.check("sent 2 = stored 2", True)
    report.section("Shops", plot=bars({"Berlin": 3.5, "<Lisbon>": 4.0}, unit="EUR"))
    report.section("Rate", plot=lines({"sent": [(0, 1), (1, 3)]}, unit="1/s", along="seconds"))
    report.write(tmp_path / "report.html")
    command = [str(BROWSER), *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (tmp_path / "report.html").as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "<h1>Orders &amp; more</h1>" in done.stdout
    assert len(re.findall(r"<rect [^>]*fill=", done.stdout)) == 2
    assert len(re.findall(r"<polyline ", done.stdout)) == 1
    assert "&lt;Lisbon&gt;" in done.stdout
