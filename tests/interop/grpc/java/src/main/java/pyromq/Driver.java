package pyromq;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads commands as lines of JSON, has clients of the official library carry them out, and writes answers and events.
 * Usage: Driver HOST:PORT tls|plain. The commands are described where the program that starts this one keeps them.
 */
public final class Driver {

    /** The library tells a status code only within the text of its exceptions. */
    private static final Pattern CODE = Pattern.compile("response-code=(\\d+)");

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Gson GSON = new Gson();

    private Driver() {
    }

    public static void main(String[] args) throws IOException {
        Clients clients = new Clients(args[0], args[1].equals("tls"));
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            threads.submit(() -> say(answer(clients, command)));
        }
        Runtime.getRuntime().halt(0); // running clients wait for their long polls otherwise
    }

    private static JsonObject answer(Clients clients, JsonObject command) {
        JsonObject answer = new JsonObject();
        answer.add("id", command.get("id"));
        try {
            answer.add("ok", clients.carryOut(command));
        } catch (Throwable fault) {
            answer.addProperty("error", String.valueOf(fault));
            for (Throwable cause = fault; cause != null; cause = cause.getCause()) {
                Matcher code = CODE.matcher(String.valueOf(cause.getMessage()));
                if (code.find()) {
                    answer.addProperty("code", Integer.valueOf(code.group(1)));
                    break;
                }
            }
        }
        return answer;
    }

    /** Print one line; threads do not mix theirs. */
    static synchronized void say(JsonObject what) {
        OUT.println(GSON.toJson(what));
    }
}
