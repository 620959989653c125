"""Codes, languages and versions: official names, unknown numbers kept."""

import pytest

from pyromq.protocol import release
from pyromq.protocol.codes import RequestCode, ResponseCode, request_name, response_name
from pyromq.protocol.release import Language, language_from_name, language_from_number


def test_official_names() -> None:
    assert request_name(310) == "SEND_MESSAGE_V2"
    assert request_name(200151) == "BATCH_ACK_MESSAGE"
    assert response_name(0) == "SUCCESS"
    assert response_name(-1006) == "RPC_TIME_OUT"


def test_unknown_codes_stay_numbers() -> None:
    assert request_name(16) == "16"
    assert response_name(4711) == "4711"


def test_request_and_response_codes_are_separate_lists() -> None:
    assert request_name(10) == "SEND_MESSAGE"
    assert response_name(10) == "FLUSH_DISK_TIMEOUT"
    assert RequestCode.AUTH_CREATE_USER.value == ResponseCode.USER_NOT_EXIST.value


@pytest.mark.parametrize("language", Language)
def test_language_by_name_and_number(language: Language) -> None:
    assert language_from_name(language.name) is language
    assert language_from_name(language.name.lower()) is language
    assert language_from_name(str(language.value)) is language
    assert language_from_number(language.value) is language


@pytest.mark.parametrize("name", ["", "COBOL", "99", "9999999999", "-1", "²"])
def test_unknown_language_is_none(name: str) -> None:
    assert language_from_name(name) is None


def test_named_versions_match_the_full_list() -> None:
    named = {name: value for name, value in vars(release).items() if name.startswith("V")}
    assert len(named) == 30
    for name, number in named.items():
        assert release.version_name(number) == name


def test_version_names_at_the_edges() -> None:
    assert release.version_name(release.CURRENT) == "V5_3_3"
    assert release.version_name(0) == "V3_0_0_SNAPSHOT"
    assert release.version_name(611) == "V5_9_9"
    assert release.version_name(612) == "HIGHER_VERSION"
    assert release.version_name(100_000) == "HIGHER_VERSION"
    assert release.version_name(-5) == "-5"
