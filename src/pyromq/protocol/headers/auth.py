"""Headers of users and access rules: the 5.x requests and those of the plain ACL of 4.x."""

from pyromq.protocol.headers.base import Header


class AuthCreateUserHeader(Header, kw_only=True):
    username: str | None = None


class AuthUpdateUserHeader(Header, kw_only=True):
    username: str | None = None


class AuthDeleteUserHeader(Header, kw_only=True):
    username: str | None = None


class AuthGetUserHeader(Header, kw_only=True):
    username: str | None = None


class AuthListUserHeader(Header, kw_only=True):
    filter: str | None = None


class AuthCreateAclHeader(Header, kw_only=True):
    """`subject` reads `User:name`, here and below."""

    subject: str | None = None


class AuthUpdateAclHeader(Header, kw_only=True):
    subject: str | None = None


class AuthDeleteAclHeader(Header, kw_only=True):
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class AuthGetAclHeader(Header, kw_only=True):
    subject: str | None = None


class AuthListAclHeader(Header, kw_only=True):
    subject_filter: str | None = None
    resource_filter: str | None = None


class UpdateAndCreateAclConfigHeader(Header, kw_only=True):
    """Permission lists join `name=PUB|SUB` with commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAclConfigHeader(Header, kw_only=True):
    access_key: str


class GetBrokerClusterAclInfoResponseHeader(Header, kw_only=True):
    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigHeader(Header, kw_only=True):
    global_white_addrs: str
    acl_file_full_path: str | None = None
