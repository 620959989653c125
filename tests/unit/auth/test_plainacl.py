"""Apache's plain_acl.yml: the sample file as it is, changes on disk, and everything that is wrong with a file."""

from pathlib import Path

import pytest

from pyromq.auth.errors import AuthError
from pyromq.auth.rules import Action, Decision, Kind, judge
from pyromq.auth.users.access import UserType
from pyromq.auth.users.plainacl import PlainAcl

SAMPLE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


def written(path: Path, text: str) -> PlainAcl:
    path.write_text(text)
    path.chmod(0o600)
    return PlainAcl(path)


def allowed(acl: PlainAcl, kind: Kind, name: str, action: Action) -> bool:
    entry = judge(acl.access.rules["RocketMQ"], kind, name, action, "10.0.0.1")
    return entry is not None and entry.decision is Decision.ALLOW


def test_apaches_sample_is_read_as_it_is(tmp_path: Path) -> None:
    acl = written(tmp_path / "plain_acl.yml", SAMPLE)
    normal, admin = acl.access.users["RocketMQ"], acl.access.users["rocketmq2"]
    assert (normal.secret, normal.type, normal.sources) == ("12345678", UserType.NORMAL, ())
    assert (admin.type, [each.text for each in admin.sources]) == (UserType.SUPER, ["192.168.1.*"])
    expected = {
        (Kind.TOPIC, "topicA"): (False, False),
        (Kind.TOPIC, "topicB"): (True, True),
        (Kind.TOPIC, "topicC"): (False, True),
        (Kind.TOPIC, "other"): (False, False),
        (Kind.GROUP, "groupA"): (False, False),
        (Kind.GROUP, "groupC"): (False, True),
        (Kind.GROUP, "other"): (False, True),
    }
    for (kind, name), (publish, subscribe) in expected.items():
        assert allowed(acl, kind, name, Action.PUB) == publish, name
        assert allowed(acl, kind, name, Action.SUB) == subscribe, name


def test_a_global_white_list_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # The class of hole where an address stands for a signature: nothing but users comes out of the file.
    acl = written(tmp_path / "plain_acl.yml", "globalWhiteRemoteAddresses: ['*']\naccounts: []\n")
    assert not acl.access.users
    assert not acl.access.rules
    assert "no address replaces a signature" in caplog.text


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    acl = written(path, SAMPLE)
    assert not acl.refresh()
    path.write_text(SAMPLE.replace("rocketmq2", "rocketmq3"))
    assert acl.refresh()
    assert set(acl.access.users) == {"RocketMQ", "rocketmq3"}
    for broken in ("accounts: [{accessKey: x", ""):
        path.write_text(broken)
        with pytest.raises(AuthError):
            acl.refresh()
        assert set(acl.access.users) == {"RocketMQ", "rocketmq3"}


def test_a_folder_holds_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("accounts: [{accessKey: usera, secretKey: secret-a}]")
    (tmp_path / "b.yml").write_text("accounts: [{accessKey: userb, secretKey: secret-b}]")
    assert set(PlainAcl(tmp_path).access.users) == {"usera", "userb"}
    assert not PlainAcl(tmp_path / "absent.yml").access.users


@pytest.mark.parametrize(
    "text",
    [
        "[]x",
        "- a\n- b",
        "accounts: nobody",
        "accounts: [nobody]",
        "accounts: [{accessKey: usera}]",
        "accounts: [{accessKey: 'a b', secretKey: top-secret}]",
        "accounts: [{accessKey: usera, secretKey: top-secret, topicPerms: [t]}]",
        "accounts: [{accessKey: usera, secretKey: top-secret, topicPerms: [t=FLY]}]",
        "accounts: [{accessKey: usera, secretKey: top-secret, topicPerms: t=PUB}]",
        "accounts: [{accessKey: usera, secretKey: top-secret, whiteRemoteAddress: 10.x}]",
        "accounts: [{accessKey: usera, secretKey: {top-secret: 1}}]",
        "accounts: !!python/object/apply:os.system [top-secret]",
        "accounts: [{secretKey: top-secret, accessKey",
        "[" * 5000,
    ],
)
def test_bad_files_are_refused_without_showing_secrets(tmp_path: Path, text: str) -> None:
    with pytest.raises(AuthError) as caught:
        written(tmp_path / "plain_acl.yml", text)
    assert "top-secret" not in str(caught.value)
