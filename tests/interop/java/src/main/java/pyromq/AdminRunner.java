package pyromq;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one process. Reads one command a line, its arguments separated by tabs, and answers each
 * with one line: what the command printed, as Base64. Usage: AdminRunner, with the name server as system property.
 */
public final class AdminRunner {

    private AdminRunner() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(capture);
            System.setErr(capture);
            try {
                MQAdminStartup.main0(line.split("\t"), null);
            } catch (Throwable error) {
                error.printStackTrace(capture);
            }
            answers.println(Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
        System.exit(0);
    }
}
