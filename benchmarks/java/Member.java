import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official client as a member of a group: prints the queue and the body of what it gets, works on each for a while,
 * and leaves when its input ends. Starts when a first line arrives, so that several can start at one moment.
 */
public final class Member {
    public static void main(String[] arguments) throws Exception {
        long work = Long.parseLong(arguments[4]);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setMqClientApiTimeout(30_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(5_000);
        consumer.subscribe(arguments[2], "*");
        if (arguments[3].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                take(messages, work);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                take(messages, work);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        say("ready");
        System.in.read();
        consumer.start();
        while (System.in.read() >= 0) {
            // Only the end matters.
        }
        consumer.shutdown();
        System.exit(0);
    }

    private static void take(List<MessageExt> messages, long work) {
        for (MessageExt message : messages) {
            say(message.getQueueId() + " " + new String(message.getBody(), StandardCharsets.UTF_8));
            try {
                Thread.sleep(work);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
