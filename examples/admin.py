"""Look after a cluster: topics, groups, lag, messages, dead letters."""

import os
import time

from pyromq import Admin, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC, GROUP = "example-admin", "example-admin-group"

with Admin(namesrv=NAMESRV) as admin:
    for cluster, brokers in admin.cluster_info().cluster_addr_table.items():
        print(f"cluster {cluster}: {', '.join(sorted(brokers))}")

    created = admin.create_topic(TOPIC, queues=2)
    admin.create_group(GROUP)
    admin.wait_for_topic(TOPIC)
    print(f"topic {TOPIC} on {', '.join(created)}")

    before = int(time.time() * 1000)
    with Producer("example-admin-producer", namesrv=NAMESRV) as producer:
        for number in range(10):
            producer.send(Message(TOPIC, f"message {number}".encode(), keys=[f"key-{number}"]))

    # A group that has never consumed: its lag is not known, which is not the same as none.
    print(f"lag: {admin.lag(GROUP, TOPIC).total}")
    admin.reset_offsets(GROUP, TOPIC, before)
    print(f"lag after a reset to the start: {admin.lag(GROUP, TOPIC).total}")
    admin.skip_accumulated(GROUP, TOPIC)
    for row in admin.lag(GROUP, TOPIC).queues:
        print(f"queue {row.queue.queue_id}: {row.lag} behind")

    (found,) = admin.query_message(TOPIC, "key-7")
    print(f"key-7 is {found.body.decode()!r}, stored at {found.store_host}")
    for track in admin.message_track(found):
        print(f"group {track.group}: {track.track_type}")
