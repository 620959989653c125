"""Wide addresses need authentication or a loud word; the audit log works without users, too."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from pyromq.broker.standalone import Standalone
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.auth import GetBrokerClusterAclInfoResponseHeader, UpdateAndCreateAclConfigHeader
from pyromq.settings.errors import ConfigError
from tests.integration.security.secured import ALICE, ROOT, Signer, run, secured, users

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what it takes to bind it is the point here


async def starts(path: Path, *, insecure: bool = False, **settings: str) -> None:
    server = Standalone(
        path, host=EVERYWHERE, namesrv_port=0, broker_port=0, insecure=insecure,
        settings={"advertised_host": "127.0.0.1"} | settings,
    )  # fmt: skip
    await server.start()
    await server.stop()


def test_a_wide_bind_without_authentication_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"refusing to listen on 0\.0\.0\.0"):
        asyncio.run(starts(tmp_path))


def test_with_authentication_it_is_not(tmp_path: Path) -> None:
    run(starts(tmp_path, authentication_enabled="true", authorization_enabled="true"))


def test_insecure_is_said_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(starts(tmp_path, insecure=True))
    assert caplog.text.count("INSECURE") == 2


def test_rules_without_users_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="authenticationEnabled"):
        asyncio.run(starts(tmp_path, insecure=True, authorization_enabled="true"))


def test_an_audit_log_without_authentication(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "audit.log")
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, settings={"audit_log_path": path})
        await server.start()
        async with Signer(server.broker_address, None) as peer:
            assert (await peer.call(RequestCode.GET_BROKER_CONFIG)).code == ResponseCode.SUCCESS
            assert (await peer.call(RequestCode.AUTH_LIST_USER)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await server.stop()

    run(scenario())
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert ("GET_BROKER_CONFIG", "SUCCESS", "") in {(each["request"], each["result"], each["user"]) for each in events}


def test_accounts_of_rocketmq_4_over_the_wire(tmp_path: Path) -> None:
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, _), Signer(server.broker_address, ROOT) as root:
            header = UpdateAndCreateAclConfigHeader(
                access_key="carol",
                secret_key="carol-secret-1",  # noqa: S106 - of a test
                default_topic_perm="DENY",
                default_group_perm="SUB",
                topic_perms="orders=PUB|SUB,bills=DENY",
                white_remote_address="10.0.0.0/8",
            )
            answer = await root.call(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            answer = await root.call(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
            accounts = {each["accessKey"]: each for each in json.loads(bytes(answer.body))["plainAccessConfigs"]}
            assert accounts["carol"]["topicPerms"] == ["orders=PUB|SUB", "bills=DENY"]
            assert accounts["carol"]["defaultGroupPerm"] == "SUB"
            assert accounts["root"]["admin"]
            assert not any(each.get("secretKey") for each in accounts.values())
            answer = await root.call(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            found = answer.header(GetBrokerClusterAclInfoResponseHeader)
            assert (found.broker_addr, found.cluster_name) == (server.broker_address, "DefaultCluster")
            assert json.loads(found.version)["counter"] > 1
            answer = await root.call(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ext={"globalWhiteAddrs": "*"})
            assert answer.code == ResponseCode.INVALID_PARAMETER
            answer = await root.call(RequestCode.DELETE_ACL_CONFIG, ext={"accessKey": "alice"})
            assert answer.code == ResponseCode.SUCCESS
            async with Signer(server.broker_address, ALICE) as alice:
                assert (await alice.call(RequestCode.HEART_BEAT)).code == ResponseCode.NO_PERMISSION

    run(scenario())
    events = [json.loads(line) for line in (tmp_path / "auth" / "audit.log").read_text().splitlines()]
    assert ["User:carol"] in [each["resources"] for each in events if each["request"] == "UPDATE_AND_CREATE_ACL_CONFIG"]
