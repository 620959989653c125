package pyromq;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What a scenario needs: names of its own, clients that are closed with it, waiting, and checks. */
final class Cluster implements AutoCloseable {

    static final long BOUND_MS = 180_000;
    /** How often clients look for routes, which decides how soon they learn of retry topics and restarted servers. */
    private static final int POLL_MS = 2_000;
    /** With servers, on a machine that is busy. */
    static final int PATIENCE_MS = 30_000;
    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));

    final String namesrv;
    final String name;
    private final List<AutoCloseable> open = new ArrayList<>();
    private int counter;

    Cluster(String namesrv, String scenario) {
        this.namesrv = namesrv;
        this.name = scenario + "_" + Long.toString(System.nanoTime() & 0xFFFFFFFFFFL, 36);
    }

    String topic() {
        return "T_" + name;
    }

    String group() {
        return "G_" + name;
    }

    String unique(String prefix) {
        return prefix + "_" + name + "_" + counter++;
    }

    <T extends AutoCloseable> void closeLater(T resource) {
        open.add(resource);
    }

    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(unique("P"));
        start(producer);
        return producer;
    }

    void start(DefaultMQProducer producer) throws Exception {
        configure(producer);
        producer.setSendMsgTimeout(Math.max(producer.getSendMsgTimeout(), PATIENCE_MS));
        producer.start();
        closeLater(producer::shutdown);
    }

    void configure(ClientConfig client) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(unique("I"));
        client.setPollNameServerInterval(POLL_MS);
        client.setMqClientApiTimeout(PATIENCE_MS);
    }

    DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closeLater(consumer::shutdown);
        return consumer;
    }

    /** A started consumer that collects what it gets. */
    List<MessageExt> collect(String group, String topic, String expression) throws Exception {
        List<MessageExt> got = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return got;
    }

    Message message(String body) {
        return message(body, "");
    }

    Message message(String body, String tags) {
        return new Message(topic(), tags, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static List<String> sorted(List<MessageExt> messages) {
        List<String> texts = new ArrayList<>();
        for (MessageExt message : messages) {
            texts.add(text(message));
        }
        Collections.sort(texts);
        return texts;
    }

    static List<String> names(String prefix, int count) {
        List<String> names = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            names.add(String.format("%s%03d", prefix, n));
        }
        return names;
    }

    /** Has the program that started this one do something to the servers, and waits until it is done. */
    static void ask(String what) throws Exception {
        System.out.println("{\"ask\":\"" + what + "\"}");
        System.out.flush();
        check("done".equals(ANSWERS.readLine()), what + " was not done");
    }

    static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.currentTimeMillis() + BOUND_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("waited in vain for " + what);
            }
            Thread.sleep(20);
        }
    }

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object expected, Object actual, String what) {
        check(expected.equals(actual), what + ": expected " + expected + " but got " + actual);
    }

    /** Sets an enum property whose class moved between releases, by the name of the constant. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setEnum(Object target, String setter, String constant) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1
                && method.getParameterTypes()[0].isEnum()) {
                method.invoke(target, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], constant));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    @Override
    public void close() throws Exception {
        Collections.reverse(open);
        for (AutoCloseable resource : open) {
            resource.close();
        }
    }
}
