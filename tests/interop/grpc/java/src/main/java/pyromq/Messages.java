package pyromq;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.Base64;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Messages of the library as JSON and back. */
final class Messages {

    private Messages() {
    }

    static boolean has(JsonObject what, String member) {
        return what.has(member) && !what.get(member).isJsonNull();
    }

    static String[] texts(JsonElement array) {
        return array.getAsJsonArray().asList().stream().map(JsonElement::getAsString).toArray(String[]::new);
    }

    static Message made(ClientServiceProvider provider, JsonObject said) {
        MessageBuilder builder = provider.newMessageBuilder()
            .setTopic(said.get("topic").getAsString())
            .setBody(Base64.getDecoder().decode(said.get("body").getAsString()));
        if (has(said, "tag")) {
            builder.setTag(said.get("tag").getAsString());
        }
        if (has(said, "keys")) {
            builder.setKeys(texts(said.get("keys")));
        }
        if (has(said, "group")) {
            builder.setMessageGroup(said.get("group").getAsString());
        }
        if (has(said, "deliverAt")) {
            builder.setDeliveryTimestamp(said.get("deliverAt").getAsLong());
        }
        if (has(said, "properties")) {
            said.getAsJsonObject("properties").entrySet()
                .forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        return builder.build();
    }

    static JsonObject told(MessageView view) {
        byte[] body = new byte[view.getBody().remaining()];
        view.getBody().duplicate().get(body);
        JsonObject said = new JsonObject();
        said.addProperty("id", view.getMessageId().toString());
        said.addProperty("topic", view.getTopic());
        said.addProperty("body", Base64.getEncoder().encodeToString(body));
        said.addProperty("tag", view.getTag().orElse(null));
        said.addProperty("group", view.getMessageGroup().orElse(null));
        said.addProperty("deliverAt", view.getDeliveryTimestamp().orElse(null));
        said.addProperty("attempt", view.getDeliveryAttempt());
        JsonArray keys = new JsonArray();
        view.getKeys().forEach(keys::add);
        said.add("keys", keys);
        JsonObject properties = new JsonObject();
        view.getProperties().forEach(properties::addProperty);
        said.add("properties", properties);
        return said;
    }
}
