"""What is shipped beside the package can be read by whom it is for: every file, option and command in it exists."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pyromq.broker.config import BrokerConfig
from pyromq.cli import app
from pyromq.settings.declaration import options

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
    unit = configparser.ConfigParser(interpolation=None, strict=False)  # some keys of systemd may be repeated
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(path)
    program, *command = unit["Service"]["ExecStart"].split()
    assert program.endswith("/bin/pyromq")
    assert CliRunner().invoke(app, [*command[: 2 if command[0] == "pipeline" else 1], "--help"]).exit_code == 0
    assert unit["Install"]["WantedBy"] == "multi-user.target"


SECURED = {
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "LockPersonality": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
}


@pytest.mark.parametrize("path", sorted((DEPLOY / "systemd").iterdir()), ids=lambda path: path.name)
def test_units_may_do_little(path: Path) -> None:
    lines = path.read_text().splitlines()
    service = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert {key: service.get(key) for key in SECURED} == SECURED
    calls = [line for line in lines if line.startswith("SystemCallFilter=")]
    assert calls[0].startswith("SystemCallFilter=@system-service")
    assert calls[1].startswith("SystemCallFilter=~@privileged")
    if "pipeline" in path.name:  # Spark is in its control group, and must not be told to end
        assert (service["KillMode"], "ExecReload" in service) == ("mixed", False)
        assert int(service["TimeoutStopSec"]) > float(service["ExecStart"].partition("--grace ")[2])
    else:
        assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", sorted((DEPLOY / "systemd").iterdir()), ids=lambda path: path.name)
def test_systemd_understands_the_units(path: Path, tmp_path: Path) -> None:
    unit = tmp_path / path.name.replace("@", "@single")
    program = tmp_path / "pyromq"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit.write_text(path.read_text().replace("/opt/pyromq/bin/pyromq", str(program)))
    done = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []


def test_no_secret_is_in_what_starts_a_server() -> None:
    secrets = [option.flag for option in options(BrokerConfig).values() if option.secret]
    assert secrets
    for path in [*(DEPLOY / "systemd").iterdir(), *(DEPLOY / "docker").iterdir()]:
        text = path.read_text().lower()
        for word in (*secrets, "--password", "--secretkey", "secret_key", "secretkey="):
            assert word not in text, f"{path.name} has {word}"


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


def test_the_image_is_made_from_the_lock_and_pinned() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert "uv sync --locked --no-dev" in text
    assert "pip install --no-cache-dir /" not in text
    images = re.findall(r"^(?:FROM|ARG PYTHON_IMAGE=)\s*(\S+)", text, re.MULTILINE)
    assert images[0].startswith("python:")
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", images[0]), "an exact release of Python and Debian"
    assert set(images[1:]) == {"${PYTHON_IMAGE}"}
    assert all(re.search(r"==\d", line) for line in re.findall(r"pip install .*", text))
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    assert "127.0.0.1:8090/health" in text


def test_every_container_is_watched_and_held_down() -> None:
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yml").read_text())["services"]
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["command"][0] == "broker" or "healthcheck" in service, "a name server serves no /health"
