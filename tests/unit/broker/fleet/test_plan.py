"""Which names, ports and folders the brokers of a fleet have, and what is refused."""

from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.fleet.plan import Member, check_left_over, members
from pyromq.settings.errors import ConfigError


def config(root: Path, **flags: str) -> BrokerConfig:
    given = {"broker_name": "shop", "store_path_root_dir": str(root), "http_port": "-1"}
    return BrokerConfig.load(flags=given | flags)


def plan(root: Path, **flags: str) -> list[Member]:
    return members(config(root, **flags), 3)


def test_the_first_is_the_broker_of_the_file_and_the_others_follow_from_it(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert [each.name for each in found] == ["shop", "shop-1", "shop-2"]
    assert [each.config.listen_port for each in found] == [10911, 10921, 10931]
    folders = [tmp_path, tmp_path / "processes" / "1", tmp_path / "processes" / "2"]
    assert [each.config.store_path_root_dir for each in found] == folders
    assert [each.ports for each in found] == [(10909, 10911, 10912), (10919, 10921, 10922), (10929, 10931, 10932)]
    assert {each.config.http_port for each in found} == {-1}


def test_more_processes_leave_the_others_as_they_are(tmp_path: Path) -> None:
    few, many = members(config(tmp_path), 2), members(config(tmp_path), 5)
    assert [each.arguments() for each in few] == [each.arguments() for each in many[:2]]


def test_free_ports_stay_free_ports(tmp_path: Path) -> None:
    assert [each.config.listen_port for each in plan(tmp_path, listen_port="0")] == [0, 0, 0]
    assert [each.ports for each in plan(tmp_path, listen_port="0")] == [(), (), ()]
    assert "free ones" in plan(tmp_path, listen_port="0")[1].needs


def test_ports_and_folders_that_are_set_move_too(tmp_path: Path) -> None:
    flags = {"ha_listen_port": "12000", "store_path_commit_log": str(tmp_path / "fast"), "fast_listen": "false"}
    found = plan(tmp_path / "root", **flags)
    assert [each.ports for each in found] == [(10911, 12000), (10921, 12010), (10931, 12020)]
    logs = [tmp_path / "fast", tmp_path / "fast" / "processes" / "1", tmp_path / "fast" / "processes" / "2"]
    assert [each.config.store_config().commit_log_dir for each in found] == logs


def test_every_broker_has_a_port_of_its_own_for_grpc_clients(tmp_path: Path) -> None:
    found = plan(tmp_path, grpc_port="8081", fast_listen="false")
    assert [each.ports[-1] for each in found] == [8081, 8091, 8101]
    assert [each.config.grpc_port for each in plan(tmp_path, grpc_port="0")] == [0, 0, 0]
    with pytest.raises(ConfigError, match="grpcServerPort = 65530 leaves no room"):
        plan(tmp_path, grpc_port="65530")


def test_slaves_follow_the_masters_of_the_same_number(tmp_path: Path) -> None:
    flags = {
        "broker_role": "SLAVE",
        "broker_id": "1",
        "ha_master_address": "10.0.0.1:10912",
        "master_broker_address": "10.0.0.1:10911",
    }
    found = plan(tmp_path, **flags)
    assert [each.name for each in found] == ["shop", "shop-1", "shop-2"]
    assert {each.config.broker_id for each in found} == {1}
    assert [each.config.ha_master_address for each in found][1:] == ["10.0.0.1:10922", "10.0.0.1:10932"]
    assert found[2].config.master_broker_address == "10.0.0.1:10931"
    assert found[0].ports == (10909, 10911)


def test_users_are_one_and_audit_logs_are_not(tmp_path: Path) -> None:
    found = plan(tmp_path, authentication_enabled="true")
    assert {each.config.auth_config_path for each in found} == {tmp_path / "config" / "auth"}
    audits = [each.config.audit_log_path for each in found]
    assert audits == [tmp_path / "config" / "auth" / name for name in ("audit.log", "audit-1.log", "audit-2.log")]
    without = plan(tmp_path)
    assert {each.config.auth_config_path for each in without} == {None}
    assert {each.config.audit_log_path for each in without} == {None}
    only = plan(tmp_path, audit_log_path=str(tmp_path / "who"))
    assert [each.config.audit_log_path for each in only] == [tmp_path / name for name in ("who", "who-1", "who-2")]


def test_arguments_carry_file_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=filed\nlistenPort=20000\n")
    loaded = BrokerConfig.load(
        file=file, environ={"PYROMQ_LISTEN_PORT": "21000"}, flags={"insecure": "true", "fast_listen": "false"}
    )
    second = members(loaded, 2)[1]
    arguments = second.arguments()
    assert arguments[:2] == ["--config", str(file)]
    assert {"--insecure", "--no-fast-listen"} < set(arguments)
    assert arguments[arguments.index("--listen-port") + 1] == "21010"
    assert arguments[arguments.index("--broker-name") + 1] == "filed-1"


def test_ports_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set it to 65514 or lower"):
        plan(tmp_path, listen_port="65530")
    assert plan(tmp_path, listen_port="65514")[2].ports[-1] == 65535
    with pytest.raises(ConfigError, match="haListenPort = 65520 leaves no room"):
        plan(tmp_path, ha_listen_port="65520")


def test_ports_that_two_would_take_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="port 10921 would be taken by the broker shop and by the broker shop-1"):
        plan(tmp_path, ha_listen_port="10921")
    with pytest.raises(ConfigError, match="the page of metrics and health"):
        plan(tmp_path, http_port="10922")


def test_a_name_that_becomes_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 127"):
        plan(tmp_path, broker_name="x" * 126)


def messages(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "00000000000000000000").write_bytes(b"")


def test_messages_of_brokers_that_would_not_run_are_not_forgotten(tmp_path: Path) -> None:
    check_left_over(config(tmp_path), 1)
    for number in ("1", "3"):
        messages(tmp_path / "processes" / number / "commitlog")
    (tmp_path / "processes" / "4" / "commitlog").mkdir(parents=True)
    (tmp_path / "processes" / "notes").mkdir()
    with pytest.raises(ConfigError, match=r"processes/3 holds messages of the broker shop-3, .* --processes 4"):
        check_left_over(config(tmp_path), 2)
    check_left_over(config(tmp_path), 4)


def test_they_are_found_where_the_commit_log_is(tmp_path: Path) -> None:
    (tmp_path / "root" / "processes" / "1").mkdir(parents=True)
    messages(tmp_path / "log" / "processes" / "1")
    with pytest.raises(ConfigError, match="shop-1"):
        check_left_over(config(tmp_path / "root", store_path_commit_log=str(tmp_path / "log")), 1)
