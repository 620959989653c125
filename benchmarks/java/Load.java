import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** The official client as a load generator: so many asynchronous sends in flight, one line of JSON at the end. */
public final class Load {
    private static final double NANOS = 1e9;

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Exception fault) {
            fault.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        String nameServer = arguments[0];
        String topic = arguments[1];
        int depth = Integer.parseInt(arguments[2]);
        int size = Integer.parseInt(arguments[3]);
        double warmUp = Double.parseDouble(arguments[4]);
        double seconds = Double.parseDouble(arguments[5]);

        DefaultMQProducer producer = new DefaultMQProducer("benchmark-java");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        producer.send(new Message(topic, new byte[size]));

        LongAdder answered = new LongAdder();
        LongAdder failed = new LongAdder();
        Semaphore free = new Semaphore(depth);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                free.release();
                (result.getSendStatus() == SendStatus.SEND_OK ? answered : failed).increment();
            }

            @Override
            public void onException(Throwable fault) {
                free.release();
                failed.increment();
            }
        };
        sendUntil(producer, topic, size, free, callback, System.nanoTime() + (long) (warmUp * NANOS));
        long before = answered.sum();
        long begun = System.nanoTime();
        sendUntil(producer, topic, size, free, callback, begun + (long) (seconds * NANOS));
        double elapsed = (System.nanoTime() - begun) / NANOS;
        double rate = (answered.sum() - before) / elapsed;
        free.tryAcquire(depth, 20, TimeUnit.SECONDS);
        System.out.printf("{\"per_second\":%.1f,\"answered\":%d,\"failed\":%d}%n", rate, answered.sum(), failed.sum());
    }

    private static void sendUntil(
            DefaultMQProducer producer, String topic, int size, Semaphore free, SendCallback callback, long end)
            throws Exception {
        byte[] body = new byte[size];
        while (System.nanoTime() < end) {
            free.acquire();
            producer.send(new Message(topic, "TagA", body), callback);
        }
    }

    private Load() {
    }
}
