"""Everybody a server knows: its own store, `plain_acl.yml`, and the servers' own credentials, in one picture.

Invariant: a source that cannot be read any more keeps what it said last; nobody is let in, or kept out, by a torn file.
"""

import logging

from pyromq.auth.errors import AuthError
from pyromq.auth.users.access import Access, Credentials, User, UserType
from pyromq.auth.users.plainacl import PlainAcl
from pyromq.auth.users.store import AccessStore
from pyromq.clock import wall_clock
from pyromq.protocol.bodies.tables import DataVersion

log = logging.getLogger(__name__)


class Directory:
    """`access` is the picture now. `refresh` looks for changed files; call it every few seconds."""

    def __init__(
        self,
        store: AccessStore,
        plain: PlainAcl | None = None,
        inner: Credentials | None = None,
    ) -> None:
        self.store = store
        self.plain = plain
        self._inner = Access()
        if inner is not None:
            user = User(inner.access_key, inner.secret_key, UserType.SUPER)
            self._inner = Access({user.name: user})
        self.trouble = ""
        """Why files that changed could not be read; empty when all is well."""
        self.version = DataVersion()
        self.access = Access()
        self.merge()

    def refresh(self) -> None:
        """Take in what changed on disk, of each source for itself: a damaged one must not hide news of the other."""
        changed, troubles = False, []
        for source in (self.store, self.plain):
            if source is None:
                continue
            try:
                changed |= source.refresh()
            except (AuthError, OSError) as error:
                troubles.append(str(error))
        trouble = "; ".join(troubles)
        if trouble and trouble != self.trouble:
            log.error("users and rules stay as they were: %s", trouble)
        self.trouble = trouble
        if changed:
            self.merge()
            log.info("users and rules were read again: %d users", len(self.access.users))

    def look_again(self) -> bool:
        """`refresh` before somebody is turned away; whether there is news."""
        before = self.access
        self.refresh()
        return self.access is not before

    def merge(self) -> None:
        """Make the picture anew; what the store says comes before `plain_acl.yml`."""
        plain = self.plain.access if self.plain is not None else Access()
        self.access = self._inner.over(self.store.access.over(plain))
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=wall_clock())
