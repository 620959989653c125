package pyromq;

import static pyromq.Cluster.ask;
import static pyromq.Cluster.await;
import static pyromq.Cluster.equal;
import static pyromq.Cluster.names;
import static pyromq.Cluster.sorted;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;

/** What operators do to servers while clients use them. */
final class Operations {

    /** Scenarios that restart servers, which no other scenario should have to live with. */
    static final Set<String> DISTURBING = Set.of("restartBroker", "killBroker", "restartNamesrv");

    private Operations() {
    }

    static void register(Map<String, Driver.Scenario> all) {
        all.put("restartBroker", cluster -> restart(cluster, "restartBroker"));
        all.put("killBroker", cluster -> restart(cluster, "killBroker"));
        all.put("restartNamesrv", cluster -> restart(cluster, "restartNamesrv"));
        all.put("aclOff", Operations::aclOff);
    }

    /** Messages flow before, during and after; what was acknowledged arrives, and nothing that was not sent. */
    static void restart(Cluster cluster, String what) throws Exception {
        ask("settle");
        DefaultMQProducer producer = cluster.producer();
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        Set<String> acknowledged = new HashSet<>();
        send(cluster, producer, acknowledged, "before");
        await("the messages of before", () -> distinct(got).containsAll(acknowledged));
        List<String> during = new CopyOnWriteArrayList<>();
        Thread sender = new Thread(() -> {
            for (int n = 0; !Thread.currentThread().isInterrupted(); n++) {
                try {
                    String body = "during" + n;
                    if (producer.send(cluster.message(body)).getSendStatus() == SendStatus.SEND_OK) {
                        during.add(body);
                    }
                    Thread.sleep(20);
                } catch (InterruptedException end) {
                    return;
                } catch (Exception unavailable) {
                    // The application tries again; only what was acknowledged counts.
                }
            }
        });
        sender.start();
        ask(what);
        int before = during.size();
        await("sends to succeed again", () -> during.size() >= before + 20);
        sender.interrupt();
        sender.join();
        acknowledged.addAll(during);
        send(cluster, producer, acknowledged, "after");
        await("everything that was acknowledged", () -> distinct(got).containsAll(acknowledged));
    }

    private static void send(Cluster cluster, DefaultMQProducer producer, Set<String> bodies, String prefix)
        throws Exception {
        for (String body : names(prefix, 20)) {
            equal(SendStatus.SEND_OK, producer.send(cluster.message(body)).getSendStatus(), "status");
            bodies.add(body);
        }
    }

    private static Set<String> distinct(List<MessageExt> messages) {
        return new HashSet<>(sorted(messages));
    }

    /** A client that signs its requests is as welcome as any where nobody checks signatures. */
    static void aclOff(Cluster cluster) throws Exception {
        AclClientRPCHook hook = new AclClientRPCHook(new SessionCredentials("someAccessKey", "someSecretKey"));
        DefaultMQProducer producer = new DefaultMQProducer(cluster.unique("P"), hook);
        cluster.start(producer);
        for (String body : names("m", 10)) {
            equal(SendStatus.SEND_OK, producer.send(cluster.message(body)).getSendStatus(), "status");
        }
        List<MessageExt> got = cluster.collect(cluster.group(), cluster.topic(), "*");
        await("10 messages", () -> got.size() >= 10);
        equal(names("m", 10), sorted(got), "messages");
    }
}
