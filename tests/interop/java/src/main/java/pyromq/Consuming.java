package pyromq;

import static pyromq.Cluster.await;
import static pyromq.Cluster.check;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.names;
import static pyromq.Cluster.sorted;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The ways of consuming. */
final class Consuming {

    private Consuming() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("tags", Consuming::tags);
        all.put("sql92", Consuming::sql92);
        all.put("concurrent", Consuming::concurrent);
        all.put("orderly", Consuming::orderly);
        all.put("broadcast", Consuming::broadcast);
        all.put("litePull", Consuming::litePull);
        all.put("litePullAssign", Consuming::litePullAssign);
        all.put("sharing", Consuming::sharing);
        all.put("pop", Consuming::pop);
    }

    static void tags(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (String tag : List.of("a", "b", "c", "a", "", "b")) {
            producer.send(cluster.message(tag.isEmpty() ? "none" : tag, tag));
        }
        List<MessageExt> some = cluster.collect(cluster.unique("G"), cluster.topic(), "a || b");
        List<MessageExt> every = cluster.collect(cluster.unique("G"), cluster.topic(), "*");
        await("tagged messages", () -> some.size() >= 4 && every.size() >= 6);
        equal(List.of("a", "a", "b", "b"), sorted(some), "a || b");
        equal(List.of("a", "a", "b", "b", "c", "none"), sorted(every), "*");
    }

    static void sql92(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (int n = 0; n < 10; n++) {
            Message message = cluster.message(String.format("m%03d", n), n % 2 == 0 ? "even" : "odd");
            message.putUserProperty("n", String.valueOf(n));
            if (n > 7) {
                message.putUserProperty("region", "hang'zhou");
            }
            producer.send(message);
        }
        List<MessageExt> got = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
        consumer.subscribe(cluster.topic(),
            MessageSelector.bySql("(n BETWEEN 2 AND 5 AND TAGS = 'even') OR region = 'hang''zhou' AND n IS NOT NULL"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await("filtered messages", () -> got.size() >= 4);
        equal(List.of("m002", "m004", "m008", "m009"), sorted(got), "matches");
        DefaultMQPushConsumer broken = cluster.consumer(cluster.unique("G"));
        broken.subscribe(cluster.topic(), MessageSelector.bySql("n > > 3"));
        broken.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            broken.start();
        } catch (Exception refused) {
            return;
        }
        throw new AssertionError("a broken expression was accepted");
    }

    static void concurrent(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (String body : names("m", 200)) {
            producer.send(cluster.message(body));
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("200 messages", () -> got.size() >= 200);
        equal(names("m", 200), sorted(got), "messages");
    }

    static void orderly(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (int n = 0; n < 60; n++) {
            producer.send(cluster.message(String.format("m%03d", n)),
                (queues, message, arg) -> queues.get((Integer) arg % queues.size()), n % 3);
        }
        Map<Integer, List<Integer>> got = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
        consumer.subscribe(cluster.topic(), "*");
        int[] failures = {0};
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (Cluster.text(messages.get(0)).equals("m010") && failures[0]++ < 2) {
                context.setSuspendCurrentQueueTimeMillis(50);
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            for (MessageExt message : messages) {
                got.computeIfAbsent(message.getQueueId(), id -> new CopyOnWriteArrayList<>())
                    .add(Integer.parseInt(Cluster.text(message).substring(1)));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await("60 messages", () -> got.values().stream().mapToInt(List::size).sum() >= 60);
        for (List<Integer> numbers : got.values()) {
            for (int n = 1; n < numbers.size(); n++) {
                check(numbers.get(n - 1) < numbers.get(n), "order: " + numbers);
            }
        }
        equal(3, failures[0], "attempts at the message that failed twice");
    }

    static void broadcast(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("m000"));
        List<List<MessageExt>> got = List.of(new CopyOnWriteArrayList<>(), new CopyOnWriteArrayList<>());
        for (List<MessageExt> mine : got) {
            DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
            Cluster.setEnum(consumer, "setMessageModel", "BROADCASTING");
            consumer.subscribe(cluster.topic(), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                mine.addAll(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
        }
        for (String body : names("m", 20).subList(1, 20)) {
            producer.send(cluster.message(body));
        }
        for (List<MessageExt> mine : got) {
            await("20 messages each", () -> mine.size() >= 20);
            equal(names("m", 20), sorted(mine), "messages");
        }
    }

    static void litePull(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (String body : names("m", 50)) {
            producer.send(cluster.message(body));
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(cluster.group());
        cluster.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(cluster.topic(), "*");
        cluster.closeLater(consumer::shutdown);
        consumer.start();
        List<MessageExt> got = new ArrayList<>();
        long end = System.currentTimeMillis() + Cluster.BOUND_MS;
        while (got.size() < 50 && System.currentTimeMillis() < end) {
            got.addAll(consumer.poll(1000));
        }
        equal(names("m", 50), sorted(got), "messages");
        consumer.commitSync();
    }

    static void litePullAssign(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        MessageQueue queue = producer.send(cluster.message("m000")).getMessageQueue();
        for (String body : names("m", 20).subList(1, 20)) {
            producer.send(cluster.message(body), queue);
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(cluster.group());
        cluster.configure(consumer);
        consumer.setAutoCommit(false);
        cluster.closeLater(consumer::shutdown);
        consumer.start();
        consumer.assign(List.of(queue));
        consumer.seek(queue, 15);
        List<MessageExt> got = new ArrayList<>();
        long end = System.currentTimeMillis() + Cluster.BOUND_MS;
        while (got.size() < 5 && System.currentTimeMillis() < end) {
            got.addAll(consumer.poll(1000));
            // The client may still hand out what a pull from before the seek, the first ten, brings after it.
            got.removeIf(message -> message.getQueueOffset() < 10);
        }
        equal(names("m", 20).subList(15, 20), sorted(got), "messages after the seek");
        check(consumer.offsetForTimestamp(queue, 0L) == 0, "offset by time");
    }

    /** Two members share the queues, and one takes over all of them when the other leaves. */
    static void sharing(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        producer.send(cluster.message("m000"));
        Map<String, List<MessageExt>> got = new HashMap<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (String name : List.of("one", "two")) {
            List<MessageExt> mine = new CopyOnWriteArrayList<>();
            got.put(name, mine);
            DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
            consumer.subscribe(cluster.topic(), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                mine.addAll(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            members.add(consumer);
        }
        await("both members to own queues", () -> members.stream().allMatch(member ->
            member.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(cluster.topic())).count() == 2));
        for (String body : names("m", 41).subList(1, 41)) {
            producer.send(cluster.message(body));
        }
        await("all messages", () -> got.get("one").size() + got.get("two").size() >= 41);
        check(got.get("one").size() > 5 && got.get("two").size() > 5, "both members work");
        members.get(0).shutdown();
        int before = got.get("two").size();
        for (String body : names("n", 20)) {
            producer.send(cluster.message(body));
        }
        await("the other member to take over", () -> got.get("two").size() >= before + 20);
    }

    /** Two members to whom the broker hands out messages instead of queues; one that fails comes again. */
    static void pop(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (String body : names("m", 60)) {
            producer.send(cluster.message(body, "tag"));
        }
        Administration.letPop(cluster, cluster.topic(), cluster.group());
        List<MessageExt> got = new CopyOnWriteArrayList<>();
        List<MessageExt> failed = new CopyOnWriteArrayList<>();
        for (int n = 0; n < 2; n++) {
            DefaultMQPushConsumer consumer = cluster.consumer(cluster.group());
            // Since 5.0; without it the client divides the queues itself.
            consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            consumer.subscribe(cluster.topic(), "tag || other");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    if (Cluster.text(message).equals("m007") && message.getReconsumeTimes() == 0) {
                        failed.add(message);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                got.addAll(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
        }
        await("59 messages", () -> got.size() >= 59);
        check(got.stream().allMatch(message -> message.getProperty("POP_CK") != null), "messages were popped");
        producer.send(cluster.message("late", "other"));
        await("the failed and the late message", () -> got.size() >= 61);
        List<String> expected = new ArrayList<>(names("m", 60));
        expected.add(0, "late");
        equal(expected, sorted(got), "messages, each once");
        equal(1, failed.size(), "failures");
        MessageExt again = got.stream().filter(message -> Cluster.text(message).equals("m007")).findFirst().get();
        equal(1, again.getReconsumeTimes(), "attempts before");
        equal(cluster.topic(), again.getTopic(), "topic of the retried message");
    }
}
