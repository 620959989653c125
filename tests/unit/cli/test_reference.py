"""Pages in docs/reference are those that the code produces."""

from pathlib import Path

import pytest

from pyromq.cli.reference import FILES, Page, page

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("wanted", Page)
def test_the_page_is_current(wanted: Page) -> None:
    stored = (DOCS / FILES[wanted]).read_text()
    assert stored == page(wanted), f"run: pyromq reference {wanted} > docs/reference/{FILES[wanted]}"
