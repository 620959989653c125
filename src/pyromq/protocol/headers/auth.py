"""Headers of users and access rules: the 5.x requests and those of the plain ACL of 4.x."""

from pyromq.protocol.bounds import Name, Names, Text
from pyromq.protocol.headers.base import Header


class AuthCreateUserHeader(Header, kw_only=True):
    username: Name | None = None


class AuthUpdateUserHeader(Header, kw_only=True):
    username: Name | None = None


class AuthDeleteUserHeader(Header, kw_only=True):
    username: Name | None = None


class AuthGetUserHeader(Header, kw_only=True):
    username: Name | None = None


class AuthListUserHeader(Header, kw_only=True):
    filter: Text | None = None


class AuthCreateAclHeader(Header, kw_only=True):
    """`subject` reads `User:name`, here and below."""

    subject: Name | None = None


class AuthUpdateAclHeader(Header, kw_only=True):
    subject: Name | None = None


class AuthDeleteAclHeader(Header, kw_only=True):
    subject: Name | None = None
    policy_type: Name | None = None
    resource: Text | None = None


class AuthGetAclHeader(Header, kw_only=True):
    subject: Name | None = None


class AuthListAclHeader(Header, kw_only=True):
    subject_filter: Text | None = None
    resource_filter: Text | None = None


class UpdateAndCreateAclConfigHeader(Header, kw_only=True):
    """Permission lists join `name=PUB|SUB` with commas."""

    access_key: Name
    secret_key: Text | None = None
    white_remote_address: Names | None = None
    admin: bool | None = None
    default_topic_perm: Text | None = None
    default_group_perm: Text | None = None
    topic_perms: Names | None = None
    group_perms: Names | None = None


class DeleteAclConfigHeader(Header, kw_only=True):
    access_key: Name


class GetBrokerClusterAclInfoResponseHeader(Header, kw_only=True):
    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigHeader(Header, kw_only=True):
    global_white_addrs: Names
    acl_file_full_path: Text | None = None
