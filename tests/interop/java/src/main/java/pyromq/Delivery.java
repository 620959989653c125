package pyromq;

import static pyromq.Cluster.await;
import static pyromq.Cluster.check;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.sorted;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** What happens to a message between the producer and the consumer: delays, transactions, retries, replies. */
final class Delivery {

    private static final long EARLY_MS = 0;

    private Delivery() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("delayLevel", Delivery::delayLevel);
        all.put("timed", Delivery::timed);
        all.put("transaction", Delivery::transaction);
        all.put("retry", Delivery::retry);
        all.put("deadLetter", Delivery::deadLetter);
        all.put("requestReply", Delivery::requestReply);
    }

    static void delayLevel(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("warm"));
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("the first message", () -> got.size() == 1);
        long sent = System.currentTimeMillis();
        for (int level = 1; level <= 2; level++) {
            Message message = cluster.message("level" + level);
            message.setDelayTimeLevel(level);
            producer.send(message);
        }
        await("delayed messages", () -> got.size() >= 3);
        equal("level1", Cluster.text(got.get(1)), "first");
        check(got.get(1).getStoreTimestamp() - sent >= 1000 - EARLY_MS, "level 1 is not early");
        check(got.get(2).getStoreTimestamp() - sent >= 5000 - EARLY_MS, "level 2 is not early");
    }

    static void timed(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("warm"));
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("the first message", () -> got.size() == 1);
        long due = System.currentTimeMillis() + 4000;
        Message message = cluster.message("timed");
        MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(due));
        producer.send(message);
        await("the timed message", () -> got.size() >= 2);
        // Apache rounds the time down to its precision of one second.
        check(got.get(1).getStoreTimestamp() >= due - 1000, "not early by more than the precision");
    }

    static void transaction(Cluster cluster) throws Exception {
        Map<String, AtomicInteger> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = new TransactionMQProducer(cluster.unique("P"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return Cluster.text(message).startsWith("unknown") ? LocalTransactionState.UNKNOW : outcome(message);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checks.computeIfAbsent(Cluster.text(message), body -> new AtomicInteger()).incrementAndGet();
                return outcome(message);
            }

            /** The same whenever it is asked for: Apache's broker asks again when the end came after the immunity. */
            private LocalTransactionState outcome(Message message) {
                String body = Cluster.text(message);
                return body.startsWith("commit") || body.endsWith("yes")
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        cluster.start(producer);
        for (String body : List.of("commit1", "rollback1", "commit2", "unknown-yes", "unknown-no")) {
            Message message = cluster.message(body, "tag");
            message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1");
            producer.sendMessageInTransaction(message, null);
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "tag");
        await("both check-backs", () -> checks.containsKey("unknown-yes") && checks.containsKey("unknown-no"));
        // A message may come twice: Apache's broker may ask before it has noted the end it was told.
        await("the committed messages", () -> Set.copyOf(sorted(got)).equals(
            Set.of("commit1", "commit2", "unknown-yes")));
    }

    static void retry(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("fails once"));
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
        consumer.subscribe(cluster.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            attempts.add(messages.get(0).getReconsumeTimes());
            equal(cluster.topic(), messages.get(0).getTopic(), "topic of a retry");
            context.setDelayLevelWhenNextConsume(1);
            return attempts.size() < 3
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await("three attempts", () -> attempts.size() >= 3);
        equal(List.of(0, 1, 2), attempts, "attempts");
    }

    static void deadLetter(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("poison"));
        AtomicInteger attempts = new AtomicInteger();
        DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(cluster.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            attempts.incrementAndGet();
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        await("two attempts", () -> attempts.get() >= 2);
        DefaultMQProducer probe = cluster.producer();
        String dead = "%DLQ%" + cluster.group();
        await("the dead-letter topic", () -> {
            try {
                return !probe.fetchPublishMessageQueues(dead).isEmpty();
            } catch (Exception absent) {
                return false;
            }
        });
        List<MessageExt> got = cluster.collect(cluster.unique("G"), dead, "*");
        await("the dead letter", () -> !got.isEmpty());
        equal("poison", Cluster.text(got.get(0)), "body");
        equal(2, attempts.get(), "attempts");
    }

    static void requestReply(Cluster cluster) throws Exception {
        DefaultMQProducer requester = cluster.producer();
        requester.send(cluster.message("ignored", "warm"));
        DefaultMQProducer replier = cluster.producer();
        DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
        consumer.subscribe(cluster.topic(), "ask");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] body = ("re: " + Cluster.text(message)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(message, body));
                } catch (Exception fault) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Message answer = requester.request(cluster.message("how are you?", "ask"), Cluster.BOUND_MS);
        equal("re: how are you?", Cluster.text(answer), "reply");
    }
}
