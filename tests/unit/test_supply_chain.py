"""What a release is made of: pinned, hashed, listed, and without code that runs when it is installed."""

import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
CRATES = tomllib.loads((ROOT / "native" / "Cargo.lock").read_text())


def test_every_dependency_is_pinned_with_hashes() -> None:
    for package in LOCK["package"]:
        if "registry" not in package["source"]:
            assert package["name"] in {"pyromq", "pyromq-native"}
            continue
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, package["name"]
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]


def test_every_crate_of_the_core_is_pinned_with_its_checksum() -> None:
    for crate in CRATES["package"]:
        if crate["name"] != "pyromq-native":
            assert crate["source"] == "registry+https://github.com/rust-lang/crates.io-index"
            assert len(crate["checksum"]) == 64, crate["name"]


def test_no_code_of_ours_runs_at_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["build-backend"] == "hatchling.build"
    assert "hooks" not in project["tool"]["hatch"]["build"]
    assert not (ROOT / "setup.py").exists()


def test_the_bill_of_materials_lists_what_is_needed() -> None:
    bill = runpy.run_path(str(ROOT / "deploy" / "sbom.py"))["bill"]
    own = {component["name"] for component in bill(LOCK, CRATES, [])["components"]}
    assert {"msgspec", "cryptography", "cffi", "rich"} <= own
    assert not own & {"pytest", "pyspark", "mypy"}
    assert "pyspark" in {component["name"] for component in bill(LOCK, CRATES, ["delta"])["components"]}
    for component in bill(LOCK, CRATES, [])["components"]:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        assert all(len(each["hashes"][0]["content"]) == 64 for each in component["externalReferences"])


def test_the_bill_of_the_core_lists_its_crates() -> None:
    bill = runpy.run_path(str(ROOT / "deploy" / "sbom.py"))["bill"]
    components = {each["purl"]: each for each in bill(LOCK, CRATES, ["native"])["components"]}
    crates = {
        f"pkg:cargo/{crate['name']}@{crate['version']}": crate for crate in CRATES["package"] if "source" in crate
    }
    assert any(reference.startswith("pkg:cargo/pyo3@") for reference in crates)
    assert any(reference.startswith("pkg:pypi/pyromq-native@") for reference in components)
    for reference, crate in crates.items():
        (reference_of_file,) = components[reference]["externalReferences"]
        assert reference_of_file["hashes"] == [{"alg": "SHA-256", "content": crate["checksum"]}]
    without = bill(LOCK, CRATES, [])["components"]
    assert all(each["purl"].startswith("pkg:pypi/") for each in without)
