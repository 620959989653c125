# ruff: noqa: INP001 - a script beside other files, not a package
"""Print a software bill of materials (CycloneDX 1.5, JSON) of what a release needs, from the lock file.

usage: python deploy/sbom.py [extra ...]      extras such as spark, delta, iceberg, filters, otel
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[1] / "uv.lock"
NAME = "pyromq"


def bill(lock: dict[str, Any], extras: list[str]) -> dict[str, Any]:
    """The bill of the package's own dependencies and those of `extras`, and what they need in turn."""
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
                found[reference] = _component(package, reference)
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


def _component(package: dict[str, Any], reference: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
        "externalReferences": [
            {"type": "distribution", "url": file["url"], "hashes": [{"alg": "SHA-256", "content": digest}]}
            for file in _files(package)
            for digest in [file["hash"].removeprefix("sha256:")]
        ],
    }


def _files(package: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "sdist" in package:
        yield package["sdist"]
    yield from package.get("wheels", [])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(tomllib.loads(LOCK.read_text()), sys.argv[1:]), indent=2) + "\n")
