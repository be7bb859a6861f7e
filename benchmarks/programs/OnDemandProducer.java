// Sends a few records at a time, on demand.
//
//   java -cp <Kafka's jars> OnDemandProducer.java BOOTSTRAP PARTITIONS TOPIC...       then on standard input:    RECORDS [TIME APART]
//
// Answers each line with "sent" when the broker has the records. They go to the partitions in turn, all in one produce
// request: a stream that plans every few milliseconds should find all of them or none. Their timestamps are now, or TIME
// (ms) in the first partition and APART more in each next one.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class OnDemandProducer {
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[1]);
        int topics = args.length - 2;
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "linger.ms", 10_000, // until the flush
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            for (int t = 0; t < topics; t++) {
                producer.partitionsFor(args[2 + t]); // now: a lookup between two records would send the first ones
            }
            long next = 0;
            for (String request; (request = requests.readLine()) != null; ) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                String[] words = request.strip().split(" ");
                for (int left = Integer.parseInt(words[0]); left > 0; left--, next++) {
                    String topic = args[2 + (int) (next % topics)];
                    int partition = (int) (next / topics % partitions);
                    byte[] key = String.format("u%07d", next % 10_000_000).getBytes(StandardCharsets.US_ASCII);
                    byte[] value = ("{\"user\":\"" + next + "\",\"event\":\"page_view\",\"item\":10427,\"country\":\"DE\","
                        + "\"device\":\"mobile\",\"ms\":120}").getBytes(StandardCharsets.US_ASCII);
                    Long timestamp =
                        words.length == 1 ? null : Long.parseLong(words[1]) + partition * Long.parseLong(words[2]);
                    sent.add(producer.send(new ProducerRecord<>(topic, partition, timestamp, key, value)));
                }
                producer.flush();
                for (Future<RecordMetadata> one : sent) {
                    one.get(); // throws if the send failed
                }
                System.out.println("sent");
            }
        }
    }
}
