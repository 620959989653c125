"""What is shipped beside the package can be read by whom it is for: every file, option and command in it exists."""

import configparser
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pyromq.broker.config import BrokerConfig
from pyromq.cli import app

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("name", ["single", "async-master", "sync-master", "slave"])
def test_broker_files_load(name: str) -> None:
    config = BrokerConfig.load(file=DEPLOY / "conf" / f"{name}.conf", environ={})
    assert config.store_path_root_dir.is_absolute()
    assert config.flush_disk_type.name == "SYNC_FLUSH"


def test_every_broker_file_is_tried() -> None:
    assert {path.stem for path in (DEPLOY / "conf").glob("*.conf")} == {
        "single",
        "async-master",
        "sync-master",
        "slave",
    }


@pytest.mark.parametrize("path", sorted((DEPLOY / "systemd").iterdir()), ids=lambda path: path.name)
def test_units_start_a_command_that_exists(path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(path)
    program, command, *_ = unit["Service"]["ExecStart"].split()
    assert program.endswith("/bin/pyromq")
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_compose_services_start_with_options_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yml").read_text())["services"]
    assert sum(service["command"][0] == "broker" for service in services.values()) == 2
    for service in services.values():
        printed = CliRunner().invoke(app, [*service["command"], "--print-config"])
        assert printed.exit_code == 0, printed.output


def test_dockerfile_copies_what_exists() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists()
            assert source in allowed
    assert re.search(r"^USER (?!root)\w+$", text, re.MULTILINE), "it does not run as root"
