package pyromq;

import static pyromq.Cluster.await;
import static pyromq.Cluster.check;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.names;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Looking messages up, moving offsets, traces. */
final class Administration {

    private Administration() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("query", Administration::query);
        all.put("offsets", Administration::offsets);
        all.put("offsetReset", Administration::offsetReset);
        all.put("trace", Administration::trace);
    }

    static DefaultMQAdminExt admin(Cluster cluster) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(cluster.unique("A"), Cluster.BOUND_MS);
        cluster.configure(admin);
        admin.start();
        cluster.closeLater(admin::shutdown);
        return admin;
    }

    /** Creates a group and has it pop a topic. Only releases since 5.0 can, and classes moved in between. */
    static void letPop(Cluster cluster, String topic, String group) throws Exception {
        DefaultMQAdminExt admin = admin(cluster);
        String broker = admin.examineTopicRouteInfo(topic).getBrokerDatas().get(0).selectBrokerAddr();
        Method create = method(admin, "createAndUpdateSubscriptionGroupConfig", 2);
        Object config = create.getParameterTypes()[1].getConstructor().newInstance();
        config.getClass().getMethod("setGroupName", String.class).invoke(config, group);
        create.invoke(admin, broker, config);
        Method let = method(admin, "setMessageRequestMode", 6);
        Object mode = let.getParameterTypes()[3].getField("POP").get(null);
        let.invoke(admin, broker, topic, group, mode, -1, 5000L);
    }

    private static Method method(Object target, String name, int parameters) throws NoSuchMethodException {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                return method;
            }
        }
        throw new NoSuchMethodException(name);
    }

    static void query(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        Message message = cluster.message("findable", "tag");
        message.setKeys("order-17");
        SendResult result = producer.send(message);
        DefaultMQAdminExt admin = admin(cluster);
        equal("findable", Cluster.text(admin.viewMessage(cluster.topic(), result.getOffsetMsgId())), "by offset id");
        equal("findable", Cluster.text(admin.viewMessage(cluster.topic(), result.getMsgId())), "by unique id");
        List<MessageExt> byKey = admin.queryMessage(cluster.topic(), "order-17", 10, 0, Long.MAX_VALUE)
            .getMessageList();
        equal(1, byKey.size(), "by key");
        equal("findable", Cluster.text(byKey.get(0)), "by key");
    }

    static void offsets(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        MessageQueue queue = producer.send(cluster.message("m000")).getMessageQueue();
        for (String body : names("m", 10).subList(1, 10)) {
            producer.send(cluster.message(body), queue);
        }
        DefaultMQAdminExt admin = admin(cluster);
        equal(10L, admin.maxOffset(queue), "max offset");
        equal(0L, admin.minOffset(queue), "min offset");
        equal(0L, admin.searchOffset(queue, 0), "before everything");
        equal(10L, admin.searchOffset(queue, System.currentTimeMillis() + 60_000), "after everything");
        check(admin.earliestMsgStoreTime(queue) > 0, "earliest store time");
        equal(4, admin.examineTopicStats(cluster.topic()).getOffsetTable().size(), "queues in the statistics");
    }

    static void offsetReset(Cluster cluster) throws Exception {
        DefaultMQProducer producer = cluster.producer();
        for (String body : names("m", 20)) {
            producer.send(cluster.message(body));
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("20 messages", () -> got.size() >= 20);
        DefaultMQAdminExt admin = admin(cluster);
        // What was consumed is committed within seconds; the reset must win over it.
        Map<MessageQueue, Long> moved = admin.resetOffsetByTimestamp(cluster.topic(), cluster.group(), 0, true);
        equal(4, moved.size(), "queues that were reset");
        await("everything again", () -> got.size() >= 40);
    }

    static void trace(Cluster cluster) throws Exception {
        String traceTopic = "Trace_" + cluster.name;
        DefaultMQProducer creator = cluster.producer();
        creator.send(new Message(traceTopic, "warm".getBytes()));
        DefaultMQProducer producer = new DefaultMQProducer(cluster.unique("P"), true, traceTopic);
        cluster.start(producer);
        SendResult result = producer.send(cluster.message("traced"));
        DefaultMQAdminExt admin = admin(cluster);
        await("the trace record", () -> {
            try {
                return admin.queryMessage(traceTopic, result.getMsgId(), 10, 0, Long.MAX_VALUE)
                    .getMessageList().stream().anyMatch(found -> Cluster.text(found).startsWith("Pub\u0001"));
            } catch (Exception absent) {
                return false;
            }
        });
    }
}
