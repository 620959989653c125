package pyromq;

import static pyromq.Cluster.await;
import static pyromq.Cluster.check;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.names;
import static pyromq.Cluster.sorted;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The ways of sending. */
final class Sending {

    private Sending() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("sync", Sending::sync);
        all.put("async", Sending::async);
        all.put("oneway", Sending::oneway);
        all.put("batch", Sending::batch);
        all.put("selector", Sending::selector);
        all.put("queue", Sending::queue);
        all.put("compression", Sending::compression);
        all.put("properties", Sending::properties);
        all.put("large", Sending::large);
        all.put("namespace", Sending::namespace);
    }

    static void sync(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        Set<String> ids = new HashSet<>();
        for (String body : names("m", 50)) {
            SendResult result = producer.send(cluster.message(body));
            equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
            check(ids.add(result.getMsgId()), "message ids repeat");
            check(result.getOffsetMsgId() != null && result.getOffsetMsgId().length() >= 32, "offset id");
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("50 messages", () -> got.size() >= 50);
        equal(names("m", 50), sorted(got), "messages");
        for (MessageExt message : got) {
            check(ids.contains(message.getMsgId()), "the consumer sees the producer's ids");
        }
    }

    static void async(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("m000"));
        CountDownLatch done = new CountDownLatch(99);
        List<Throwable> faults = new CopyOnWriteArrayList<>();
        for (String body : names("m", 100).subList(1, 100)) {
            producer.send(cluster.message(body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    done.countDown();
                }

                @Override
                public void onException(Throwable fault) {
                    faults.add(fault);
                    done.countDown();
                }
            });
        }
        check(done.await(Cluster.BOUND_MS, TimeUnit.MILLISECONDS), "callbacks");
        equal(List.of(), faults, "faults");
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("100 messages", () -> got.size() >= 100);
        equal(names("m", 100), sorted(got), "messages");
    }

    static void oneway(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("m000"));
        for (String body : names("m", 20).subList(1, 20)) {
            producer.sendOneway(cluster.message(body));
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("20 messages", () -> got.size() >= 20);
        equal(names("m", 20), sorted(got), "messages");
    }

    static void batch(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        List<Message> messages = new ArrayList<>();
        for (String body : names("m", 30)) {
            Message message = cluster.message(body, "tag");
            message.setKeys("k-" + body);
            messages.add(message);
        }
        SendResult result = producer.send(messages);
        equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
        equal(30, result.getOffsetMsgId().split(",").length, "offset ids");
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "tag");
        await("30 messages", () -> got.size() >= 30);
        equal(names("m", 30), sorted(got), "messages");
        Set<String> ids = new HashSet<>();
        for (MessageExt message : got) {
            ids.add(message.getMsgId());
            equal("k-" + Cluster.text(message), message.getKeys(), "keys");
        }
        equal(30, ids.size(), "each message of a batch keeps its own id");
    }

    static void selector(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (int n = 0; n < 40; n++) {
            SendResult result = producer.send(cluster.message("m" + n),
                (queues, message, arg) -> queues.get((Integer) arg % queues.size()), n % 3);
            equal(n % 3, result.getMessageQueue().getQueueId(), "queue");
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("40 messages", () -> got.size() >= 40);
    }

    static void queue(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        SendResult first = producer.send(cluster.message("m000"));
        long offset = first.getQueueOffset();
        for (String body : names("m", 10).subList(1, 10)) {
            SendResult result = producer.send(cluster.message(body), first.getMessageQueue());
            equal(++offset, result.getQueueOffset(), "offsets follow each other");
        }
    }

    static void compression(Cluster cluster) throws Exception {
        String body = "compress me ".repeat(1000);
        List<String> types = List.of("ZLIB", "LZ4", "ZSTD");
        for (String type : types) {
            // Read when a producer is made; 4.9 has no other way to choose.
            System.setProperty("rocketmq.message.compressType", type);
            DefaultMQProducer producer = new DefaultMQProducer(cluster.unique("P"));
            cluster.start(producer);
            producer.send(cluster.message(body));
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("compressed messages", () -> got.size() >= types.size());
        Set<Integer> kinds = new HashSet<>();
        for (MessageExt message : got) {
            equal(body, Cluster.text(message), "body");
            check(message.getStoreSize() < body.length(), "stored compressed");
            kinds.add(message.getSysFlag() >> 8 & 7);
        }
        equal(Set.of(1, 2, 3), kinds, "kinds of compression");
    }

    static void properties(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        Message message = cluster.message("m");
        message.putUserProperty("a", "1");
        message.putUserProperty("unicode", "äöü中文😀");
        message.setFlag(42);
        message.setKeys("k1 k2");
        producer.send(message);
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("the message", () -> !got.isEmpty());
        MessageExt received = got.get(0);
        equal("1", received.getUserProperty("a"), "property");
        equal("äöü中文😀", received.getUserProperty("unicode"), "property");
        equal(42, received.getFlag(), "flag");
        equal("k1 k2", received.getKeys(), "keys");
    }

    static void large(Cluster cluster) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(cluster.unique("P"));
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setSendMsgTimeout(30_000);
        cluster.start(producer);
        byte[] body = new byte[4 * 1024 * 1024];
        for (int n = 0; n < body.length; n++) {
            body[n] = (byte) (n * 31);
        }
        producer.send(new Message(cluster.topic(), body));
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("4 MiB", () -> !got.isEmpty());
        check(java.util.Arrays.equals(body, got.get(0).getBody()), "body");
    }

    static void namespace(Cluster cluster) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("NS", cluster.unique("P"));
        cluster.start(producer);
        producer.send(cluster.message("m000"));
        List<MessageExt> bare = cluster.collect(cluster.group(), "NS%" + cluster.topic(), "*");
        await("the message under its wrapped name", () -> !bare.isEmpty());
        equal("NS", bare.get(0).getProperty("INSTANCE_ID"), "namespace property");
    }
}
