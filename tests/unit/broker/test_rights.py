"""Who may be in a producer group that belongs to another user."""

from pyromq.auth.guard import Guard
from pyromq.auth.needs import Scene
from pyromq.auth.rules import Action, Decision, Entry, Resource, Rules
from pyromq.auth.users.access import Access, User
from pyromq.broker.cluster.rights import Rights


def rights(*resources: str) -> Rights:
    entries = tuple(Entry(Resource.parse(each), Action.PUB, Decision.ALLOW) for each in resources)
    access = Access({"bob": User("bob", "secret-of-bob")}, {"bob": Rules(entries)})
    return Rights(Guard(lambda: access, Scene("c")))


def test_a_group_of_another_user_needs_the_right_to_it() -> None:
    assert not rights("Topic:orders").may_produce("bob", "10.0.0.1", "billing", "alice")
    assert rights("Group:billing").may_produce("bob", "10.0.0.1", "billing", "alice")


def test_a_topic_stands_for_the_group_of_all_who_may_send_to_it() -> None:
    # gRPC clients name no producer group, so those of several users meet in that of the topic.
    assert rights("Topic:orders").may_produce("bob", "10.0.0.1", "orders", "alice")
    assert not rights("Topic:other").may_produce("bob", "10.0.0.1", "orders", "alice")
