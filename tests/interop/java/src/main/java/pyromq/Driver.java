package pyromq;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs scenarios of the official client against a name server and prints one line of JSON for each.
 * Usage: Driver NAMESRV [SCENARIO…]; without names, all of them. Exit status 0 when all passed.
 */
public final class Driver {

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
        return all;
    }

    public static void main(String[] args) {
        Map<String, Scenario> all = scenarios();
        List<String> wanted = new ArrayList<>(List.of(args).subList(1, args.length));
        if (wanted.isEmpty()) {
            wanted.addAll(all.keySet());
        }
        boolean passed = true;
        for (String name : wanted) {
            long start = System.currentTimeMillis();
            String fault = null;
            try (Cluster cluster = new Cluster(args[0], name)) {
                all.get(name).run(cluster);
            } catch (Throwable error) {
                fault = String.valueOf(error);
                StackTraceElement[] trace = error.getStackTrace();
                for (StackTraceElement element : trace) {
                    if (element.getClassName().startsWith("pyromq.")) {
                        fault += " at " + element;
                        break;
                    }
                }
            }
            passed &= fault == null;
            System.out.println("{\"scenario\":\"" + name + "\",\"ok\":" + (fault == null)
                + ",\"ms\":" + (System.currentTimeMillis() - start)
                + (fault == null ? "" : ",\"fault\":\"" + escape(fault) + "\"") + "}");
            System.out.flush();
        }
        // Client threads of a failed scenario must not keep the process.
        System.exit(passed ? 0 : 1);
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
