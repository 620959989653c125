# ruff: noqa: INP001 - a script beside other files, not a package
"""Print a software bill of materials (CycloneDX 1.5, JSON) of what a release needs, from the lock files.

usage: python deploy/sbom.py [extra ...]      extras such as native, spark, delta, iceberg, filters, otel
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAME = "pyromq"
CORE = "pyromq-native"


def bill(lock: dict[str, Any], crates: dict[str, Any], extras: list[str]) -> dict[str, Any]:
    """The bill of the package's own dependencies and those of `extras`, and what they need in turn; with the native
    core, of the crates it is built from and with."""
    packages: dict[str, list[dict[str, Any]]] = {}
    for package in lock["package"]:
        packages.setdefault(package["name"], []).append(package)
    (root,) = packages[NAME]
    found: dict[str, dict[str, Any]] = {}
    waiting = [*root.get("dependencies", [])]
    for extra in extras:
        waiting += root["optional-dependencies"][extra]
    while waiting:
        dependency = waiting.pop()
        if dependency["name"] == NAME:
            for extra in dependency.get("extra", []):
                waiting += root["optional-dependencies"][extra]
            continue
        for package in packages[dependency["name"]]:
            reference = f"pkg:pypi/{package['name']}@{package['version']}"
            if dependency.get("version", package["version"]) == package["version"] and reference not in found:
                found[reference] = _component(package, reference, _files(package))
                if package["name"] == CORE:
                    found |= _crates(crates)
                waiting += package.get("dependencies", [])
                for extra in dependency.get("extra", []):
                    waiting += package.get("optional-dependencies", {}).get(extra, [])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": NAME, "version": root["version"]}},
        "components": [found[reference] for reference in sorted(found)],
    }


def _component(package: dict[str, Any], reference: str, files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
        "externalReferences": [
            {"type": "distribution", "url": url, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for url, digest in files
        ],
    }


def _files(package: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Address and digest of each file that a package can be installed from."""
    for file in [*([package["sdist"]] if "sdist" in package else []), *package.get("wheels", [])]:
        yield file["url"], file["hash"].removeprefix("sha256:")


def _crates(lock: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All that Cargo's lock file pins but the core itself; it does not say what is needed for building only."""
    found: dict[str, dict[str, Any]] = {}
    for crate in lock["package"]:
        if crate["name"] != CORE:
            name, version = crate["name"], crate["version"]
            reference = f"pkg:cargo/{name}@{version}"
            file = f"https://static.crates.io/crates/{name}/{name}-{version}.crate", crate["checksum"]
            found[reference] = _component(crate, reference, [file])
    return found


if __name__ == "__main__":
    packages, crates = (tomllib.loads((ROOT / file).read_text()) for file in ("uv.lock", "native/Cargo.lock"))
    sys.stdout.write(json.dumps(bill(packages, crates, sys.argv[1:]), indent=2) + "\n")
