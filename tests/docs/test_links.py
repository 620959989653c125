"""Links between pages, and from pages to files, lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, pages

GENERATED = {"api.md", "errors.md", "metrics.md"}
"""Pages of docs/reference that exist once the site is built."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if file.parent == DOCS / "reference" and file.name in GENERATED:
            continue
        assert file.exists(), f"{page.name} links to {link}, which does not exist"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {link}: {file.name} has no such heading"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    roots = [ROOT, ROOT / "src", ROOT / "src" / "pyromq", ROOT / "tests", page.parent]
    for name in re.findall(r"`([\w./-]+/[\w.-]+\.py)\b", page.read_text()):
        assert any((root / name).exists() for root in roots), f"{page.name} names {name}, which does not exist"
