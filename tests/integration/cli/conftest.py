"""One cluster for each module."""

from collections.abc import Iterator

import pytest

from tests.integration.cli.cluster import Commands, commands


@pytest.fixture(scope="module")
def pyromq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with commands(tmp_path_factory.mktemp("cluster")) as run:
        yield run
