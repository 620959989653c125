package pyromq;

import java.nio.charset.StandardCharsets;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A member of a consumer group that prints the bodies it gets, until its input ends. Usage: Member NAMESRV GROUP TOPIC */
public final class Member {

    private Member() {
    }

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setMqClientApiTimeout(Cluster.PATIENCE_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                synchronized (System.out) {
                    System.out.println("got: " + new String(message.getBody(), StandardCharsets.UTF_8));
                    System.out.flush();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (System.in.read() >= 0) {
            // Only the end matters.
        }
        consumer.shutdown();
        System.exit(0);
    }
}
