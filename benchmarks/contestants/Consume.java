// Kafka's own ConsumerPerformance, over and over in one warm JVM: started afresh it would spend its run compiling.
//
//   java -cp <Kafka's jars> Consume.java         then on standard input:    BOOTSTRAP TOPIC RECORDS
//
// Each line is answered with the tool's line of figures.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.UUID;
import org.apache.kafka.tools.ConsumerPerformance;

public class Consume {
    public static void main(String[] ignored) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order; (order = orders.readLine()) != null; ) {
            String[] words = order.split(" ");
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
