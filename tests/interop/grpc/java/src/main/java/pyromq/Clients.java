package pyromq;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.Closeable;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The clients that were started, by name, and the commands. */
final class Clients {

    /** Patience on a busy machine. */
    private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final String endpoint;
    private final boolean tls;
    private final Map<String, Closeable> open = new ConcurrentHashMap<>();
    /** What simple consumers received last under an id. */
    private final Map<String, MessageView> received = new ConcurrentHashMap<>();
    private final Map<String, Integer> failures = new ConcurrentHashMap<>();

    Clients(String endpoint, boolean tls) {
        this.endpoint = endpoint;
        this.tls = tls;
    }

    JsonObject carryOut(JsonObject command) throws Exception {
        String client = command.get("client").getAsString();
        return switch (command.get("do").getAsString()) {
            case "producer" -> started(client, producer(client, command));
            case "send" -> sent(producer(client).send(message(command)));
            case "transaction" -> transaction(producer(client), command);
            case "recall" -> recall(producer(client), command);
            case "push" -> started(client, push(client, command));
            case "simple" -> started(client, simple(command));
            case "receive" -> receive(client, command);
            case "ack" -> ack(client, command);
            case "hide" -> hide(client, command);
            case "close" -> close(client);
            default -> throw new IllegalArgumentException("no such command: " + command);
        };
    }

    private JsonObject started(String client, Closeable what) {
        open.put(client, what);
        return new JsonObject();
    }

    private ClientConfiguration configuration(JsonObject command) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(endpoint).enableSsl(tls).setRequestTimeout(REQUEST_TIMEOUT);
        JsonElement credentials = command.get("credentials");
        if (credentials != null && credentials.isJsonArray()) {
            JsonArray pair = credentials.getAsJsonArray();
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(pair.get(0).getAsString(), pair.get(1).getAsString()));
        }
        return builder.build();
    }

    private Closeable producer(String client, JsonObject command) throws Exception {
        String[] topics = Messages.texts(command.get("topics"));
        return provider.newProducerBuilder()
            .setClientConfiguration(configuration(command))
            .setTopics(topics)
            .setTransactionChecker(view -> {
                tell("check", client, view);
                return "commit".equals(view.getProperties().get("outcome"))
                    ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
            })
            .build();
    }

    private Producer producer(String client) {
        return (Producer) open.get(client);
    }

    private org.apache.rocketmq.client.apis.message.Message message(JsonObject command) {
        return Messages.made(provider, command.getAsJsonObject("message"));
    }

    private static JsonObject sent(SendReceipt receipt) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", receipt.getMessageId().toString());
        answer.addProperty("recall", receipt.getRecallHandle());
        return answer;
    }

    private JsonObject transaction(Producer producer, JsonObject command) throws Exception {
        Transaction transaction = producer.beginTransaction();
        SendReceipt receipt = producer.send(message(command), transaction);
        switch (command.get("outcome").getAsString()) {
            case "commit" -> transaction.commit();
            case "rollback" -> transaction.rollback();
            default -> { }
        }
        return sent(receipt);
    }

    private JsonObject recall(Producer producer, JsonObject command) throws Exception {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", producer.recallMessage(
            command.get("topic").getAsString(), command.get("handle").getAsString()).getMessageId().toString());
        return answer;
    }

    private static Map<String, FilterExpression> subscription(JsonObject command) {
        FilterExpression filter = FilterExpression.SUB_ALL;
        if (Messages.has(command, "tag")) {
            filter = new FilterExpression(command.get("tag").getAsString(), FilterExpressionType.TAG);
        } else if (Messages.has(command, "sql")) {
            filter = new FilterExpression(command.get("sql").getAsString(), FilterExpressionType.SQL92);
        }
        return Map.of(command.get("topic").getAsString(), filter);
    }

    private Closeable push(String client, JsonObject command) throws Exception {
        return provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration(command))
            .setConsumerGroup(command.get("group").getAsString())
            .setSubscriptionExpressions(subscription(command))
            .setMessageListener(view -> {
                tell("message", client, view);
                int wanted = Integer.parseInt(view.getProperties().getOrDefault("failures", "0"));
                int failed = failures.merge(client + view.getMessageId(), 1, Integer::sum);
                return failed <= wanted ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            })
            .build();
    }

    private Closeable simple(JsonObject command) throws Exception {
        return provider.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration(command))
            .setConsumerGroup(command.get("group").getAsString())
            .setSubscriptionExpressions(subscription(command))
            .setAwaitDuration(Duration.ofSeconds(command.get("wait").getAsLong()))
            .build();
    }

    private SimpleConsumer simple(String client) {
        return (SimpleConsumer) open.get(client);
    }

    private JsonObject receive(String client, JsonObject command) throws Exception {
        Duration invisible = Duration.ofSeconds(command.get("invisible").getAsLong());
        JsonArray messages = new JsonArray();
        for (MessageView view : simple(client).receive(command.get("max").getAsInt(), invisible)) {
            received.put(client + view.getMessageId(), view);
            messages.add(Messages.told(view));
        }
        JsonObject answer = new JsonObject();
        answer.add("messages", messages);
        return answer;
    }

    private MessageView received(String client, JsonObject command) {
        return received.get(client + command.get("message").getAsString());
    }

    private JsonObject ack(String client, JsonObject command) throws Exception {
        simple(client).ack(received(client, command));
        return new JsonObject();
    }

    private JsonObject hide(String client, JsonObject command) throws Exception {
        Duration time = Duration.ofSeconds(command.get("seconds").getAsLong());
        simple(client).changeInvisibleDuration(received(client, command), time);
        return new JsonObject();
    }

    private JsonObject close(String client) throws Exception {
        open.remove(client).close();
        return new JsonObject();
    }

    private static void tell(String event, String client, MessageView view) {
        JsonObject what = new JsonObject();
        what.addProperty("event", event);
        what.addProperty("client", client);
        what.add("message", Messages.told(view));
        Driver.say(what);
    }
}
