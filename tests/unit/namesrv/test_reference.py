"""The reference page in docs is the one the settings produce."""

from pathlib import Path

import pytest

from pyromq.cli.reference import Page, page

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("server", Page)
def test_the_page_is_current(server: Page) -> None:
    stored = (DOCS / f"{server}-settings.md").read_text()
    assert stored == page(server), f"run: pyromq reference {server} > docs/reference/{server}-settings.md"
