"""Users and rules on disk: sealed, private, atomic, and the same after reading them back."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.auth.errors import AuthError
from pyromq.auth.rules import ALL, Action, Decision, Entry, PolicyType, Resource
from pyromq.auth.users.access import User, UserStatus, UserType
from pyromq.auth.users.directory import Directory
from pyromq.auth.users.plainacl import PlainAcl
from pyromq.auth.users.store import AccessStore

SECRET = "correct-horse-battery"  # noqa: S105 - of a test


def rule(resource: str, actions: Action = ALL) -> Entry:
    return Entry(Resource.parse(resource), actions, Decision.ALLOW)


@pytest.fixture
def store(tmp_path: Path) -> AccessStore:
    made = AccessStore(tmp_path)
    made.create_user(User("alice", SECRET))
    return made


def test_what_was_stored_is_read_back(store: AccessStore, tmp_path: Path) -> None:
    store.create_user(User("root", "another-secret", UserType.SUPER))
    store.add_rules("alice", PolicyType.CUSTOM, [rule("Topic:orders", Action.PUB)])
    store.add_rules("alice", PolicyType.DEFAULT, [rule("Group:*", Action.SUB)])
    store.update_user("root", status=UserStatus.DISABLE)
    assert AccessStore(tmp_path).access == store.access
    assert store.access.users["root"].status is UserStatus.DISABLE


def test_servers_that_share_a_folder_may_all_be_asked_for_one_user(store: AccessStore, tmp_path: Path) -> None:
    AccessStore(tmp_path).create_user(User("bob", SECRET))
    store.create_user(User("bob", SECRET))
    assert store.access.users["bob"].secret == SECRET
    with pytest.raises(AuthError, match="bob exists already"):
        store.create_user(User("bob", "another-secret"))
    with pytest.raises(AuthError, match="bob exists already"):
        store.create_user(User("bob", SECRET, UserType.SUPER))


def test_secrets_are_sealed_and_files_private(store: AccessStore, tmp_path: Path) -> None:
    store.update_user("alice", secret="changed-secret")  # noqa: S106 - of a test
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert SECRET.encode() not in path.read_bytes()
        assert b"changed-secret" not in path.read_bytes()
    assert AccessStore(tmp_path).access.users["alice"].secret == "changed-secret"  # noqa: S105 - of a test


def test_only_what_changes_is_sealed_anew(store: AccessStore, tmp_path: Path) -> None:
    def sealed() -> list[str]:
        return [line for line in (tmp_path / "users.json").read_text().splitlines() if '"secret"' in line]

    before = sealed()
    store.create_user(User("bob", SECRET))
    assert sealed()[0] == before[0]
    store.update_user("alice", secret="changed-secret")  # noqa: S106 - of a test
    assert sealed()[0] != before[0]
    store.delete_user("alice")
    store.create_user(User("alice", SECRET))
    assert AccessStore(tmp_path).access == store.access


def test_secrets_do_not_show_in_reprs(store: AccessStore) -> None:
    assert SECRET not in repr(store.access)


def test_a_readable_key_file_is_refused(store: AccessStore, tmp_path: Path) -> None:
    (tmp_path / "users.key").chmod(0o644)
    with pytest.raises(AuthError, match="chmod 600"):
        AccessStore(tmp_path)
    assert store.access.users


def test_a_readable_user_file_is_refused(store: AccessStore, tmp_path: Path) -> None:
    (tmp_path / "users.json").chmod(0o640)
    with pytest.raises(AuthError, match="chmod 600"):
        AccessStore(tmp_path)
    assert store.access.users


def test_the_key_of_another_store_does_not_fit(store: AccessStore, tmp_path: Path) -> None:
    other = AccessStore(tmp_path / "other")
    other.create_user(User("bob", SECRET))
    (tmp_path / "other" / "users.json").write_bytes((tmp_path / "users.json").read_bytes())
    with pytest.raises(AuthError, match="does not belong"):
        AccessStore(tmp_path / "other")
    assert store.access.users


def test_changes_beside_a_running_server_are_seen(store: AccessStore, tmp_path: Path) -> None:
    assert not store.refresh()
    AccessStore(tmp_path).create_user(User("bob", SECRET))
    assert store.refresh()
    assert set(store.access.users) == {"alice", "bob"}


def test_two_writers_lose_nothing(store: AccessStore, tmp_path: Path) -> None:
    AccessStore(tmp_path).create_user(User("bob", SECRET))
    store.create_user(User("carol", SECRET))
    assert set(AccessStore(tmp_path).access.users) == {"alice", "bob", "carol"}


def test_deleting_a_user_takes_its_rules_along(store: AccessStore) -> None:
    store.add_rules("alice", PolicyType.CUSTOM, [rule("*")])
    store.delete_user("alice")
    store.create_user(User("alice", SECRET))
    assert not store.access.rules


def test_rules_go_one_by_one_or_all(store: AccessStore) -> None:
    store.add_rules("alice", PolicyType.CUSTOM, [rule("Topic:a"), rule("Topic:b")])
    store.delete_rules("alice", PolicyType.CUSTOM, Resource.parse("Topic:a"))
    assert store.access.rules["alice"].custom == (rule("Topic:b"),)
    store.delete_rules("alice", PolicyType.CUSTOM, None)
    assert "alice" not in store.access.rules


@pytest.mark.parametrize("name", ["", "a b", "../etc", "a/b", "a\nb", "é", "x" * 65])
def test_names_that_could_forge_something_are_refused(store: AccessStore, name: str) -> None:
    with pytest.raises(AuthError):
        store.create_user(User(name, SECRET))


@pytest.mark.parametrize("secret", ["", "short", " padded-secret", "line\nbreak-in-it", "x" * 300])
def test_poor_secrets_are_refused_without_being_shown(store: AccessStore, secret: str) -> None:
    with pytest.raises(AuthError) as caught:
        store.create_user(User("bob", secret))
    assert not secret or secret not in str(caught.value)


def test_unknown_users_cannot_be_changed(store: AccessStore) -> None:
    changes: list[Callable[[], None]] = [
        lambda: store.update_user("bob", status=UserStatus.DISABLE),
        lambda: store.add_rules("bob", PolicyType.CUSTOM, [rule("*")]),
        lambda: store.create_user(User("alice", "another-secret")),
    ]
    for change in changes:
        with pytest.raises(AuthError):
            change()


def test_a_damaged_file_keeps_what_is_known(store: AccessStore, tmp_path: Path) -> None:
    (tmp_path / "users.json").write_bytes(b'{"users": [{"name": 1}]}')
    (tmp_path / "users.json.bak").unlink(missing_ok=True)
    with pytest.raises(AuthError):
        store.refresh()
    assert set(store.access.users) == {"alice"}


@pytest.mark.parametrize("damage", [b"", b" ", b"{", None])
def test_a_deleted_super_user_never_comes_back(store: AccessStore, tmp_path: Path, damage: bytes | None) -> None:
    """Whatever becomes of the file: a start fails, a running server keeps what it has; an older copy is not used."""
    store.create_user(User("root", "another-secret", UserType.SUPER))
    older = (tmp_path / "users.json").read_bytes()
    store.delete_user("root")
    assert not (tmp_path / "users.json.bak").exists()
    copy = tmp_path / "users.json.bak"  # as releases before this one kept it
    copy.write_bytes(older)
    copy.chmod(0o600)
    if damage is None:
        (tmp_path / "users.json").unlink()
    else:
        (tmp_path / "users.json").write_bytes(damage)
    with pytest.raises(AuthError, match=r"restore users\.json from a backup you trust"):
        AccessStore(tmp_path)
    with pytest.raises(AuthError):
        store.refresh()
    with pytest.raises(AuthError):
        store.create_user(User("bob", SECRET))
    assert set(store.access.users) == {"alice"}


def test_an_empty_file_is_no_store_without_users(store: AccessStore, tmp_path: Path) -> None:
    (tmp_path / "users.json").write_bytes(b"")
    (tmp_path / "users.json.bak").unlink(missing_ok=True)
    with pytest.raises(AuthError, match="is empty"):
        AccessStore(tmp_path)
    assert set(store.access.users) == {"alice"}


def test_one_damaged_file_does_not_hide_changes_of_the_other(store: AccessStore, tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text("accounts: [{accessKey: plain-user, secretKey: plain-secret}]")
    directory = Directory(store, PlainAcl(acl))
    beside = AccessStore(tmp_path)
    acl.write_text("accounts: [{")
    beside.delete_user("alice")
    directory.refresh()
    assert set(directory.access.users) == {"plain-user"}
    assert "plain_acl.yml" in directory.trouble
    beside.create_user(User("bob", SECRET))
    acl.write_text("accounts: []")
    directory.refresh()
    assert (set(directory.access.users), directory.trouble) == ({"bob"}, "")
