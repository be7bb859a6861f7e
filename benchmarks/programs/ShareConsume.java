// Kafka's own share consumer, repeatedly in one warm JVM: four members of a share group, each in its own thread.
//
//   java -cp <Kafka's jars> ShareConsume.java      then on standard input:    BOOTSTRAP TOPIC GROUP RECORDS MAX_POLL
//
// All settings but max.poll.records have their defaults: a poll accepts the records of the one before. The clock runs
// from the first records until all are read and their acknowledgements are answered.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ShareConsume {
    private static final int MEMBERS = 4;
    private static final long DEADLINE_NANOS = 120_000_000_000L;

    public static void main(String[] ignored) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String request; (request = requests.readLine()) != null; ) {
            String[] words = request.split(" ");
            System.out.println("ANSWER " + read(words[0], words[1], words[2], Long.parseLong(words[3]), words[4]));
            System.out.flush();
        }
    }

    private static String read(String bootstrap, String topic, String group, long wanted, String maxPoll)
            throws Exception {
        AtomicLong rows = new AtomicLong(), bytes = new AtomicLong(), began = new AtomicLong();
        long deadline = System.nanoTime() + DEADLINE_NANOS;
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failures = new ArrayList<>();
        AtomicLong ended = new AtomicLong();
        for (int member = 0; member < MEMBERS; member++) {
            Thread thread = new Thread(() -> {
                Properties config = new Properties();
                config.put("bootstrap.servers", bootstrap);
                config.put("group.id", group);
                config.put("max.poll.records", maxPoll);
                try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                        config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                    consumer.subscribe(List.of(topic));
                    while (rows.get() < wanted && System.nanoTime() < deadline) {
                        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                        if (records.isEmpty()) {
                            continue;
                        }
                        began.compareAndSet(0, System.nanoTime());
                        long size = 0;
                        for (ConsumerRecord<byte[], byte[]> record : records) {
                            size += record.value().length;
                        }
                        bytes.addAndGet(size);
                        rows.addAndGet(records.count());
                    }
                    consumer.commitSync();
                    ended.accumulateAndGet(System.nanoTime(), Math::max);
                } catch (Throwable failure) {
                    synchronized (failures) {
                        failures.add(failure);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.get(0));
        }
        double seconds = (ended.get() - began.get()) / 1e9;
        return String.format("{\"seconds\": %.6f, \"rows\": %d, \"value_bytes\": %d}", seconds, rows.get(), bytes.get());
    }
}
