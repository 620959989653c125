"""`pyromq store`: what it prints and how it ends."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pyromq.cli import app
from tests.unit.store.test_damage import filled, flip, lose


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("maxHashSlotNum=50\nmaxIndexNum=400\n")
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["store", *map(str, words)])


def test_a_sound_store(tmp_path: Path, settings: Path) -> None:
    filled(tmp_path / "store")
    done = run("check", tmp_path / "store", "-c", settings)
    assert done.exit_code == 0, done.output
    assert "records     : 60" in done.output
    done = run("repair", tmp_path / "store", "-c", settings)
    assert done.exit_code == 0, done.output
    assert "nothing" in done.output


def test_damage_is_shown_in_both_forms(tmp_path: Path, settings: Path) -> None:
    places = filled(tmp_path / "store")
    victim = next(each for each in places if len(each.body) > 30)
    flip(tmp_path / "store", victim.offset + 95)
    done = run("check", tmp_path / "store", "-c", settings)
    assert done.exit_code == 1
    place = f"{victim.offset} to {victim.offset + victim.size}"
    assert place in done.output
    done = run("check", tmp_path / "store", "-c", settings, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [each["place"] for each in found["findings"]] == [place]
    assert found["summary"]["damage"] == {"log": 1}


def test_no_store(tmp_path: Path) -> None:
    for command in ("check", "repair"):
        done = run(command, tmp_path)
        assert done.exit_code == 2
        assert "is no store" in done.stderr


def test_repair_shows_and_does(tmp_path: Path, settings: Path) -> None:
    root = tmp_path / "store"
    places = filled(root)
    flip(root, places[-1].offset + 4, 0xFF)
    lose(root, "index")
    shown = run("repair", root, "-c", settings, "--dry-run")
    assert shown.exit_code == 1
    assert "Nothing was changed." in shown.output
    assert not list((root / "index").glob("*"))
    done = run("repair", root, "-c", settings)
    assert done.exit_code == 1
    assert "Not done without --accept-loss" in done.output
    done = run("repair", root, "-c", settings, "--accept-loss", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["done"][0]["loses"].startswith(f"{places[-1].size} bytes")
    assert run("check", root, "-c", settings).exit_code == 0
