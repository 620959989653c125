"""The page of options is what the code says."""

from pathlib import Path

from pyromq.spark.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "spark-options.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run python -m pyromq.spark.reference > docs/reference/spark-options.md"
