// Fills a topic with events: JSON of about 100 bytes, 8-byte keys, the same ones for the same seed.
//
//   java -cp <Kafka's jars> Load.java BOOTSTRAP TOPIC PARTITIONS RECORDS CODEC BATCH_SIZE
//
// A producer of its own, because Kafka's ProducerPerformance sends no keys. Prints the records so far once a second
// and at the end the bytes of keys and values.

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Load {
    static final String[] EVENTS = {"page_view", "page_view", "page_view", "add_to_cart", "search", "checkout"};
    static final String[] COUNTRIES = {"DE", "US", "FR", "JP", "BR", "IN", "GB", "PL"};
    static final String[] DEVICES = {"mobile", "mobile", "desktop", "tablet"};
    static final long FIRST_TIME = System.currentTimeMillis() - 3_600_000;
    static final int THREADS = 2;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        long records = Long.parseLong(args[3]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "compression.type", args[4],
            "batch.size", args[5],
            "linger.ms", 100, // the batches are full long before
            "buffer.memory", 128L << 20,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);

        AtomicLong sent = new AtomicLong();
        AtomicLong bytes = new AtomicLong();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            Thread[] threads = new Thread[Math.min(THREADS, partitions)];
            for (int t = 0; t < threads.length; t++) {
                int first = t;
                threads[t] = new Thread(() -> {
                    for (int p = first; p < partitions && failure.get() == null; p += threads.length) {
                        long share = records * (p + 1) / partitions - records * p / partitions;
                        fill(producer, topic, p, share, sent, bytes, failure);
                    }
                });
                threads[t].start();
            }
            for (Thread thread : threads) {
                while (thread.isAlive()) {
                    thread.join(1000);
                    System.out.println(sent.get());
                }
            }
        }
        if (failure.get() != null) {
            failure.get().printStackTrace();
            System.exit(1);
        }
        System.out.println("bytes " + bytes.get());
    }

    static void fill(KafkaProducer<byte[], byte[]> producer, String topic, int partition, long records,
                     AtomicLong sent, AtomicLong bytes, AtomicReference<Throwable> failure) {
        SplittableRandom random = new SplittableRandom(7_001 + partition);
        StringBuilder text = new StringBuilder(160);
        for (long i = 0; i < records && failure.get() == null; i++) {
            // Some users come often, most rarely.
            int user = (int) (Math.pow(random.nextDouble(), 3) * 1_000_000);
            String key = "u" + (1_000_000 + user);
            text.setLength(0);
            text.append("{\"user\":\"").append(key)
                .append("\",\"event\":\"").append(EVENTS[random.nextInt(EVENTS.length)])
                .append("\",\"item\":").append(10_000 + (int) (Math.pow(random.nextDouble(), 2) * 80_000))
                .append(",\"country\":\"").append(COUNTRIES[random.nextInt(COUNTRIES.length)])
                .append("\",\"device\":\"").append(DEVICES[random.nextInt(DEVICES.length)])
                .append("\",\"ms\":").append(20 + random.nextInt(900)).append('}');
            byte[] value = text.toString().getBytes(StandardCharsets.US_ASCII);
            long time = FIRST_TIME + i / 1000;
            producer.send(
                new ProducerRecord<>(topic, partition, time, key.getBytes(StandardCharsets.US_ASCII), value),
                (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            bytes.addAndGet(key.length() + value.length);
            sent.incrementAndGet();
        }
    }
}
