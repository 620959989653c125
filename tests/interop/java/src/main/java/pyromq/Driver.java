package pyromq;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs scenarios of the official client against a name server and prints one line of JSON for each.
 * Usage: Driver NAMESRV [SCENARIO…]; without names, all of them.
 */
public final class Driver {

    private static final int AT_ONCE = 6;

    @FunctionalInterface
    interface Scenario {
        void run(Cluster cluster) throws Exception;
    }

    private Driver() {
    }

    static Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        Sending.register(all);
        Consuming.register(all);
        Delivery.register(all);
        Administration.register(all);
        Operations.register(all);
        Security.register(all);
        return all;
    }

    public static void main(String[] args) throws InterruptedException {
        Map<String, Scenario> all = scenarios();
        List<String> wanted = new ArrayList<>(List.of(args).subList(1, args.length));
        if (wanted.isEmpty()) {
            wanted.addAll(all.keySet());
        }
        List<Callable<Boolean>> calm = new ArrayList<>();
        List<String> disturbing = new ArrayList<>();
        for (String name : wanted) {
            if (Operations.DISTURBING.contains(name)) {
                disturbing.add(name);
            } else {
                calm.add(() -> run(args[0], name, all.get(name)));
            }
        }
        // Scenarios wait most of the time; what is done to the servers would disturb the others.
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        pool.invokeAll(calm);
        for (String name : disturbing) {
            run(args[0], name, all.get(name));
        }
        // Client threads of a failed scenario must not keep the process.
        System.exit(0);
    }

    private static boolean run(String namesrv, String name, Scenario scenario) {
        long start = System.currentTimeMillis();
        String fault = null;
        try (Cluster cluster = new Cluster(namesrv, name)) {
            scenario.run(cluster);
        } catch (Throwable error) {
            fault = String.valueOf(error);
            for (StackTraceElement element : error.getStackTrace()) {
                if (element.getClassName().startsWith("pyromq.")) {
                    fault += " at " + element;
                    break;
                }
            }
        }
        String line = "{\"scenario\":\"" + name + "\",\"ok\":" + (fault == null)
            + ",\"ms\":" + (System.currentTimeMillis() - start)
            + (fault == null ? "" : ",\"fault\":\"" + escape(fault) + "\"") + "}";
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
        return fault == null;
    }

    private static String escape(String text) {
        StringBuilder out = new StringBuilder();
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(' ');
            } else {
                out.append(c);
            }
        }
        return out.toString();
    }
}
