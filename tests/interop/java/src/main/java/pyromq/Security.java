package pyromq;

import static pyromq.Cluster.await;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.names;
import static pyromq.Cluster.sorted;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Servers that ask who is there, and wires that nobody reads. Users are those of the program that starts this one. */
final class Security {

    private Security() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("rightCredentials", cluster -> flow(cluster, signing("alice", "alice-secret-1"), false));
        all.put("wrongCredentials", cluster -> refused(cluster, signing("alice", "wrong-secret-1"), false));
        all.put("unknownUser", cluster -> refused(cluster, signing("mallory", "alice-secret-1"), false));
        all.put("disabledUser", cluster -> refused(cluster, signing("carol", "carol-secret-1"), false));
        all.put("missingCredentials", cluster -> refused(cluster, null, false));
        // Which certificates there are is said by properties of the virtual machine.
        all.put("tls", cluster -> flow(cluster, null, true));
        all.put("tlsRefused", cluster -> refused(cluster, null, true));
        all.put("plainTextRefused", cluster -> refused(cluster, null, false));
    }

    private static RPCHook signing(String accessKey, String secretKey) {
        return new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }

    private static DefaultMQProducer producer(Cluster cluster, RPCHook hook, boolean tls) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(cluster.unique("P"), hook);
        producer.setUseTLS(tls);
        cluster.start(producer);
        return producer;
    }

    /** Messages get in and out. */
    private static void flow(Cluster cluster, RPCHook hook, boolean tls) throws Exception {
        DefaultMQProducer producer = producer(cluster, hook, tls);
        for (String body : names("m", 10)) {
            producer.send(cluster.message(body));
        }
        List<MessageExt> got = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(cluster.group(), hook, new AllocateMessageQueueAveragely());
        consumer.setUseTLS(tls);
        cluster.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(cluster.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        cluster.closeLater(consumer::shutdown);
        consumer.start();
        await("10 messages", () -> got.size() >= 10);
        equal(names("m", 10), sorted(got), "messages");
    }

    /** Nothing gets in. */
    private static void refused(Cluster cluster, RPCHook hook, boolean tls) throws Exception {
        DefaultMQProducer producer = producer(cluster, hook, tls);
        try {
            producer.send(cluster.message("forged"));
        } catch (Exception refusal) {
            return;
        }
        throw new AssertionError("the message was accepted");
    }
}
