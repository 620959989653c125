"""`Door`: who makes a call, by its metadata, and whether its user may have something asked of a broker.

Every call carries all of it again, so who called before with the same words is known at once, until users or rules
change. With an authority, nobody gets in without a signature, and each refusal is in its audit log.
"""

from typing import Final

from pyromq.auth.authority import Authority, Busy
from pyromq.auth.errors import Denied
from pyromq.auth.users.access import Access
from pyromq.protocol.bounds import CLIENT_ID, NAME
from pyromq.protocol.codes import request_name
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.clients.signature import is_signed, read_authorization
from pyromq.proxy.grpc.method import Call
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.address import Address

CLIENT: Final = "x-mq-client-id"
NAMESPACE: Final = "x-mq-namespace"
LANGUAGE: Final = "x-mq-language"
VERSION: Final = "x-mq-client-version"
DATE_TIME: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"
REMEMBERED: Final = 8_192
MAX_WORDS: Final = 1_024
"""Characters of a caller's words that are remembered; hardly any client has a quarter of it."""
MAX_WORD: Final = 64

Words = tuple[str, str, str, str, Address]


class Door:
    """Without an `authority` everybody with a client id gets in and may do everything."""

    def __init__(self, authority: Authority | None = None) -> None:
        self._authority = authority
        self._known: dict[Words, Caller] = {}
        self._known_by: Access | None = None

    def caller(self, call: Call) -> Caller:
        """Who makes the call. Raises Refusal."""
        metadata, authority = call.metadata, self._authority
        get = metadata.get
        words = (get(CLIENT, ""), get(NAMESPACE, ""), get(AUTHORIZATION, ""), get(DATE_TIME, ""), call.peer)
        if authority is not None and self._known_by is not authority.access:
            self._known.clear()
            self._known_by = authority.access
        known = self._known.get(words)
        if known is not None:
            if authority is not None:
                _admit(authority, known.user)
            return known
        client_id, namespace = _client_id(words[0]), _namespace(words[1])
        user = "" if authority is None else self._user(authority, call)
        caller = Caller(
            client_id, call.peer, user, namespace, get(LANGUAGE, "")[:MAX_WORD], get(VERSION, "")[:MAX_WORD]
        )
        if sum(map(len, words[:4])) <= MAX_WORDS:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[words] = caller
        return caller

    def permit(self, caller: Caller, command: Command) -> None:
        """Raise Refusal unless the user may have this asked."""
        authority = self._authority
        if authority is None:
            return
        try:
            authority.permit(caller.user, command, caller.peer.host)
        except Denied as denied:
            authority.note_denial(caller.user, str(caller.peer), request_name(command.code), denied)
            raise Refusal(Code.UNAUTHORIZED, denied.remark) from None

    def may(self, caller: Caller, command: Command) -> bool:
        """Whether the user may have this asked now; nobody asked for it, so a no is noted nowhere."""
        try:
            if self._authority is not None:
                self._authority.permit(caller.user, command, caller.peer.host)
        except Denied:
            return False
        return True

    def _user(self, authority: Authority, call: Call) -> str:
        metadata, peer = call.metadata, call.peer
        authorization = read_authorization(metadata.get(AUTHORIZATION, ""))
        date_time = metadata.get(DATE_TIME, "")
        try:
            return authority.authenticate(
                authorization.key,
                peer.host,
                lambda secret: is_signed(authorization, date_time, secret),
                stranger=True,
            )
        except Denied as denied:
            authority.note_denial(authorization.key, str(peer), call.path.rpartition("/")[2], denied)
            raise Refusal(Code.UNAUTHORIZED, denied.remark) from None
        except Busy as busy:
            raise _busy(busy) from None


def _admit(authority: Authority, user: str) -> None:
    try:
        authority.admit(user)
    except Busy as busy:
        raise _busy(busy) from None


def _busy(busy: Busy) -> Refusal:
    return Refusal(Code.UNAUTHORIZED if busy.cut_off else Code.TOO_MANY_REQUESTS, str(busy))


def _client_id(text: str) -> str:
    client_id = text.strip()
    if not client_id:
        raise Refusal(Code.CLIENT_ID_REQUIRED, f"the call has no {CLIENT} in its metadata")
    if len(client_id) > CLIENT_ID.most:
        raise Refusal(Code.BAD_REQUEST, f"{CLIENT} has {len(client_id)} characters, more than {CLIENT_ID.most}")
    return client_id


def _namespace(text: str) -> str:
    namespace = text.strip()
    if len(namespace) > NAME.most:
        raise Refusal(Code.BAD_REQUEST, f"{NAMESPACE} has {len(namespace)} characters, more than {NAME.most}")
    return namespace
