"""The house measured: figures of `src`, and walks through it as they are really taken.

    python -m tests.architecture        # rewrites the generated parts of docs/how-it-works/architecture.md

`tests/unit/test_architecture.py` and `tests/integration/test_walks.py` hold the page and the limits of the house.
"""
