// Kafka's own ConsumerPerformance, repeatedly in one warm JVM: in a new JVM it would spend its run compiling.
//
//   java -cp <Kafka's jars> Consume.java         then on standard input:    BOOTSTRAP TOPIC RECORDS
//
// Answers each line with the tool's line of figures.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.UUID;
import org.apache.kafka.tools.ConsumerPerformance;

public class Consume {
    public static void main(String[] ignored) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String request; (request = requests.readLine()) != null; ) {
            String[] words = request.split(" ");
            ConsumerPerformance.main(new String[] {
                "--bootstrap-server", words[0],
                "--topic", words[1],
                "--num-records", words[2],
                "--group", "bench-" + UUID.randomUUID(),
                "--hide-header"});
            System.out.flush();
        }
    }
}
