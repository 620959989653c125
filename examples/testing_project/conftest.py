"""Settings of the broker under test."""

import pytest


@pytest.fixture(scope="session")
def pyromq_settings() -> dict[str, object]:
    return {"autoCreateTopicEnable": False}  # a misspelt topic is an error, as in production
