"""Taking back a delayed message before it is delivered."""

from pyromq.client.errors import ClientError, ErrorCode, transport_error
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.trace.dispatcher import SendTracer
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import HeaderError, ValidationError
from pyromq.protocol.handles.recall import decode_recall_handle
from pyromq.protocol.headers.send import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.protocol.names import is_dlq_topic, is_retry_topic
from pyromq.remoting.errors import RemotingError


async def recall(
    instance: ClientInstance, group: str, topic: str, handle: str, seconds: float, tracer: SendTracer | None
) -> str:
    """The id of the message that was taken back. Raises ClientError, BrokerError when the broker refuses."""
    if is_retry_topic(topic) or is_dlq_topic(topic):
        raise ClientError(f"messages of topic {topic!r} cannot be recalled")
    try:
        parsed = decode_recall_handle(handle)
    except ValidationError as error:
        raise ClientError(str(error), code=error.code) from error
    wire = namespaces.wrap(instance.namespace or "", topic)
    address = instance.topology.publish_address(parsed.broker_name) or instance.topology.address_by_topic(wire)
    if address is None:
        await instance.routes.refresh(wire)
        address = instance.topology.publish_address(parsed.broker_name) or instance.topology.address_by_topic(wire)
    if address is None:
        raise ClientError(
            f"broker {parsed.broker_name!r} of the recall handle is not known, nor is any broker of topic {topic!r}",
            code=ErrorCode.BROKER_NOT_EXIST,
            broker=parsed.broker_name,
        )
    header = RecallMessageHeader(producer_group=group, topic=wire, recall_handle=handle, bname=parsed.broker_name)
    success = False
    try:
        response = await instance.invoke(
            instance.vip(address),
            Command.request(RequestCode.RECALL_MESSAGE, header),
            seconds,
            broker=parsed.broker_name,
        )
        success = True
        return response.header(RecallMessageResponseHeader).msg_id
    except RemotingError as error:
        raise transport_error(error, parsed.broker_name) from error
    except HeaderError as error:
        raise ClientError(f"answer of broker {parsed.broker_name} cannot be read: {error}") from error
    finally:
        if tracer is not None:
            tracer.recalled(topic, parsed.unique_id, group, success=success)
