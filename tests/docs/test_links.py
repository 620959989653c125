"""Links between pages, and from pages to files, lead somewhere."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, anchors, links, pages

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
