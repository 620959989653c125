"""Each hole that RocketMQ became known for, as a test that would find it here."""

import asyncio
import json
from pathlib import Path

import pytest

from pyromq.auth.rules import ALL, Decision, Entry, PolicyType, Resource
from pyromq.auth.users.access import User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.broker.config import BrokerConfig
from pyromq.protocol import javaproperties
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.hooks import Signing
from tests.hostile.targets import ROOT, TIMEOUT, client, is_well, run, target

ESCAPES = (
    "../../../outside", "..", ".", "/etc/outside", "a/../../outside", "..\\..\\outside", "a\x00b", "%2e%2e%2foutside/x",
    "~/outside", "outside\n", "CON:", "\ud800", "a" * 5_000,
)  # fmt: skip
NAMING_FIELDS = ("topic", "b", "group", "consumerGroup", "producerGroup", "groupName", "a", "c", "defaultTopic")


def tree(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*")}


def test_cve_2019_17572_a_topic_name_never_becomes_a_path(tmp_path: Path) -> None:
    data, around = tmp_path / "around" / "data", tmp_path / "around"
    around.mkdir()
    fields = {
        "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1",
        "flag": "0", "defaultTopicQueueNums": "4", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "order": "false", "commitOffset": "1", "queueOffset": "0", "maxMsgNums": "1",
        "suspendTimeoutMillis": "0", "subVersion": "0", "offset": "0", "delayLevel": "-1", "clientID": "c",
        "invisibleTime": "1", "pollTime": "0", "bornTime": "1", "initMode": "0", "timestamp": "0", "isForce": "true",
    }  # fmt: skip
    proper = dict.fromkeys(NAMING_FIELDS, "proper")

    async def scenario() -> None:
        async with target(data) as server, client() as peer:
            assert server.broker is not None
            await peer.call(server.broker_address, Command.request(310, ext=fields | proper, body=b"x"), TIMEOUT)
            before = {name for name in tree(around) if name.startswith("data/consumequeue")}
            for name in ESCAPES:
                for code in sorted(server.broker.request_codes):
                    for field in NAMING_FIELDS[:4] if code != RequestCode.SEND_MESSAGE_V2 else NAMING_FIELDS:
                        ext = fields | proper | {field: name.encode("utf-8", "ignore").decode()}
                        if code in (RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER):
                            ext["topic"] = ext[field]
                        await peer.call(server.broker_address, Command.request(code, ext=ext, body=b"x"), TIMEOUT)
                for code in sorted(server.name_server.request_codes):
                    for field in (
                        "topic",
                        "brokerName",
                        "clusterName",
                        "namespace",
                        "key",
                        "brokerAddr",
                        "haServerAddr",
                    ):
                        ext = {"namespace": "n", "key": "k", "value": "v", "brokerId": "0", "topic": "t"}
                        ext |= {"brokerName": "b", "clusterName": "c", "brokerAddr": "127.0.0.1:1", "haServerAddr": ""}
                        ext[field] = name.encode("utf-8", "ignore").decode()
                        await peer.call(server.namesrv_address, Command.request(code, ext=ext), TIMEOUT)
            await is_well(server, peer)
            grown = {name for name in tree(around) if name.startswith("data/consumequeue")} - before
            assert not [name for name in grown if "outside" in name or ".." in name]

    run(scenario())
    assert {name.split("/")[0] for name in tree(around)} == {"data"}
    assert not [name for name in tree(around) if "outside" in name or "\x00" in name]
    assert not [name for name in tree(tmp_path) if not name.startswith("around")]


@pytest.mark.parametrize(
    "settings",
    [
        {"filterServerNums": "1", "rocketmqHome": "-c $@|sh . echo touch pwned;"},
        {"rocketmqHome": "`touch pwned`"},
        {"filterServerNums": "1"},
        {"filterServerHost": "192.0.2.1"},
        {"storePathRootDir": "/srv/elsewhere"},
        {"brokerConfigPath": "/srv/elsewhere"},
        {"configBlackList": ""},
        {"namesrvAddr": "evil.example:9876"},
        {"haMasterAddress": "evil.example:10912"},
        {"insecure": "true"},
        {"authenticationEnabled": "false"},
        {"authorizationEnabled": "false"},
        {"aclEnable": "false"},
        {"tls.server.mode": "disabled"},
        {"innerClientAuthenticationCredentials": '{"accessKey":"evil","secretKey":"evil-secret"}'},
        {"clientUploadFilterClassEnable": "true"},
        {"brokerPermission": "$(touch pwned)"},
        {"brokerPermission": "99"},
    ],
)
def test_cve_2023_33246_remote_configuration_is_an_allow_list(tmp_path: Path, settings: dict[str, str]) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            before = server.broker.config.public()
            body = javaproperties.dumps(settings).encode()
            change = Command.request(RequestCode.UPDATE_BROKER_CONFIG, body=body)
            answer = await peer.call(server.broker_address, change, TIMEOUT)
            assert answer.code != ResponseCode.SUCCESS, f"{settings} was taken"
            assert server.broker.config.public() == before
            await is_well(server, peer)

    run(scenario())
    assert not (tmp_path / "pwned").exists()
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"configStorePath": "/srv/pyromq-pwned", "productEnvName": "* * * * * root touch pwned"},
        {"kvConfigPath": "/srv/pyromq-pwned"},
        {"listenPort": "1"},
        {"bindAddress": "192.0.2.1"},
        {"authenticationEnabled": "false"},
        {"orderMessageEnable": "true", "kvConfigPath": "/srv/pyromq-pwned"},
    ],
)
def test_cve_2023_37582_the_name_servers_configuration_is_one_too(tmp_path: Path, settings: dict[str, str]) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            before = server.name_server.config.public()
            body = javaproperties.dumps(settings).encode()
            change = Command.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
            answer = await peer.call(server.namesrv_address, change, TIMEOUT)
            assert answer.code != ResponseCode.SUCCESS, f"{settings} was taken"
            assert server.name_server.config.public() == before, "one bad key spoils the whole change"
            await is_well(server, peer)

    run(scenario())
    assert not Path("/srv/pyromq-pwned").exists()


def test_cve_2024_23321_no_request_gives_out_a_secret(tmp_path: Path) -> None:
    inner = "the-servers-own-secret"
    settings = {
        "inner_client_authentication_credentials": json.dumps({"accessKey": "servers", "secretKey": inner}),
        "init_authentication_user": json.dumps({"username": "first", "password": "the-first-secret"}),
        "tls_key_password": "the-password-of-a-key",
    }
    secrets = [inner, ROOT.secret_key, "the-first-secret", "the-password-of-a-key"]
    sealed = tmp_path / "auth"

    async def scenario() -> None:
        async with target(tmp_path, auth=True, http_port="0", **settings) as server, client(auth=True) as peer:
            assert server.broker is not None
            everything = [*secrets, *(sealed / "users.json").read_text().split('"secret": "')[1:]]
            everything = [each.partition('"')[0] for each in everything] + [(sealed / "users.key").read_text().strip()]
            ext = {"username": "root", "subject": "User:root", "topic": "t", "group": "g", "namespace": "n", "key": "k"}
            seen = 0
            for address, codes in (
                (server.broker_address, server.broker.request_codes),
                (server.namesrv_address, server.name_server.request_codes),
            ):
                for code in sorted(codes):
                    answer = await peer.call(address, Command.request(code, ext=dict(ext), body=b"{}"), TIMEOUT)
                    text = f"{answer.remark} {answer.ext} {bytes(answer.body)!r}"
                    assert not [secret for secret in everything if secret in text], answer
                    seen += answer.code == ResponseCode.SUCCESS
            assert seen > 20
            host, _, port = (server.http_address or "").rpartition(":")
            for page in ("/metrics", "/health"):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"GET {page} HTTP/1.1\r\n\r\n".encode())
                assert not [secret for secret in everything if secret.encode() in await reader.read()]
                writer.close()

    run(scenario())
    config = BrokerConfig.load(flags=settings)
    for text in (repr(config), str(config.printable()), str(config.public())):
        assert not [secret for secret in secrets if secret in text]
    audit = (tmp_path / "auth" / "audit.log").read_text()
    assert not [secret for secret in secrets if secret in audit]


def test_an_address_on_a_white_list_still_needs_a_signature(tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(
        "globalWhiteRemoteAddresses: ['127.0.0.1', '*', '*.*.*.*']\n"
        "accounts:\n- {accessKey: adminuser, secretKey: admin-secret, admin: true, whiteRemoteAddress: '127.0.0.*'}\n"
        "- {accessKey: elsewhere, secretKey: else-secret, admin: true, whiteRemoteAddress: '10.9.8.7'}\n"
    )
    acl.chmod(0o600)

    async def asked(server: str, credentials: tuple[str, str] | None) -> int:
        peer = Client(hooks=(Signing(*credentials),) if credentials is not None else ())
        try:
            answer = await peer.call(server, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), TIMEOUT)
            return answer.code
        finally:
            await peer.close()

    async def scenario() -> None:
        async with target(tmp_path, acl_enable="true", plain_acl_path=str(acl)) as server:
            address = server.broker_address
            assert await asked(address, None) == ResponseCode.NO_PERMISSION
            assert await asked(address, ("adminuser", "wrong-secret")) == ResponseCode.NO_PERMISSION
            assert await asked(address, ("elsewhere", "else-secret")) == ResponseCode.NO_PERMISSION
            assert await asked(address, ("adminuser", "admin-secret")) == ResponseCode.SUCCESS
            acl.write_text(acl.read_text().replace("admin-secret", "other-secret"))
            assert await asked(address, ("adminuser", "other-secret")) == ResponseCode.SUCCESS
            assert await asked(address, ("adminuser", "admin-secret")) == ResponseCode.NO_PERMISSION

    run(scenario())


def test_nobody_makes_himself_a_super_user(tmp_path: Path) -> None:
    store = AccessStore(tmp_path / "auth")
    store.create_user(User(ROOT.access_key, ROOT.secret_key, UserType.SUPER))
    store.create_user(User("mallory", "mallory-secret"))
    store.add_rules("mallory", PolicyType.CUSTOM, [Entry(Resource.parse("*"), ALL, Decision.ALLOW)])
    requests = [
        (RequestCode.AUTH_CREATE_USER, {"username": "evil"}, b'{"password":"evil-secret","userType":"Super"}'),
        (RequestCode.AUTH_UPDATE_USER, {"username": "mallory"}, b'{"userType":"Super"}'),
        (RequestCode.AUTH_UPDATE_USER, {"username": "root"}, b'{"password":"stolen-secret"}'),
        (RequestCode.AUTH_DELETE_USER, {"username": "root"}, b""),
        (RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": "evil", "secretKey": "evil-se", "admin": "true"}, b""),
    ]

    async def scenario() -> None:
        async with target(tmp_path, authentication_enabled="true", authorization_enabled="true") as server:
            peer = Client(hooks=(Signing("mallory", "mallory-secret"),))
            for address in (server.broker_address, server.namesrv_address):
                for code, ext, body in requests:
                    answer = await peer.call(address, Command.request(code, ext=dict(ext), body=body), TIMEOUT)
                    assert answer.code == ResponseCode.NO_PERMISSION, code
            await peer.close()

    run(scenario())
    after = AccessStore(tmp_path / "auth").access.users
    assert set(after) == {"root", "mallory"}
    assert after["root"].secret == ROOT.secret_key
    assert not after["mallory"].is_super
