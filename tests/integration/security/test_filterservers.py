"""Filter servers check users as their broker does, and the permission to upload is one of its own."""

import asyncio
from pathlib import Path

from pyromq import aio
from pyromq.auth.rules import Action
from pyromq.auth.users.access import Credentials
from pyromq.broker.filter.filterservers import FilterProcesses, FilterServers
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from pyromq.remoting.tls import ClientTls
from tests.integration.broker.servers import until
from tests.integration.filtersrv.serving import EVEN
from tests.integration.security.secured import ALICE, BOB, ROOT, Signer, options, rule, run, secured, users
from tests.integration.security.test_tls import certificates, server_settings

PUB, SUB, CREATE = Action.PUB, Action.SUB, Action.CREATE
READER = [rule("Topic:numbers", SUB), rule("Group:evens", SUB)]


async def upload(signer: Signer) -> Command:
    header = RegisterMessageFilterClassHeader(consumer_group="evens", topic="numbers", class_name="Even", class_crc=0)
    return await signer.call(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, header, body=EVEN.encode())


async def pull(signer: Signer) -> Command:
    header = PullMessageHeader(
        consumer_group="evens",
        topic="numbers",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
    )
    return await signer.call(RequestCode.PULL_MESSAGE, header)


def test_filter_servers_of_a_secured_broker(tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")
    users(tmp_path, alice=[*READER, rule("Filter:numbers", CREATE), rule("Topic:*", PUB)], bob=READER)
    settings = server_settings(files) | {"filter_server_nums": "1", "client_upload_filter_class_enable": "true"}

    async def scenario() -> None:
        tls = ClientTls(ca=files.authority)
        async with secured(tmp_path, **settings) as (server, broker):
            async with aio.Producer("w", namesrv=server.namesrv_address, tls=tls, **options(ALICE)) as producer:
                queue = next(each for each in await producer.publish_queues("numbers") if each.queue_id == 0)
                for number in range(4):
                    await producer.send(aio.Message("numbers", b"%d" % number), queue=queue)
            await until(lambda: len(broker.part(FilterServers)) == 1)
            (address,) = broker.part(FilterServers).addresses

            async def as_user(credentials: Credentials | None) -> tuple[Command, Command]:
                async with Signer(address, credentials, tls) as signer:
                    return await upload(signer), await pull(signer)

            nobody_upload, nobody_pull = await as_user(None)
            assert (nobody_upload.code, nobody_pull.code) == (ResponseCode.NO_PERMISSION,) * 2
            bob_upload, _ = await as_user(BOB)
            assert bob_upload.code == ResponseCode.NO_PERMISSION
            assert "Filter:numbers" in (bob_upload.remark or "")
            alice_upload, alice_pull = await as_user(ALICE)
            assert alice_upload.code == ResponseCode.SUCCESS, alice_upload.remark
            assert alice_pull.code == ResponseCode.SUCCESS, alice_pull.remark
            # A group that the broker keeps from consuming gets nothing through a filter server either.
            async with aio.Admin(namesrv=server.namesrv_address, tls=tls, **options(ROOT)) as admin:
                group = broker.core.groups.get("evens")
                assert group is not None
                group.consume_enable = False
                await admin.create_group(group, broker=server.broker_address)
            _, kept_out = await as_user(ALICE)
            assert kept_out.code == ResponseCode.NO_PERMISSION, kept_out.remark

    run(scenario())


def test_secrets_are_not_in_the_arguments_of_filter_processes(tmp_path: Path) -> None:
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path, filter_server_nums="1") as (_, broker):
            await until(lambda: len(broker.part(FilterServers)) == 1)
            command = broker.part(FilterProcesses).command()
            assert "--authentication-enabled" in command
            secret = broker.config.inner_client_authentication_credentials
            assert secret
            assert secret not in command
            for pid in broker.part(FilterProcesses).pids:
                arguments = await asyncio.to_thread(Path(f"/proc/{pid}/cmdline").read_bytes)
                assert b"secretKey" not in arguments

    run(scenario())
