// Fills a topic with events: JSON of about 100 bytes with keys of 8 bytes, always the same ones for the same seed. Or
// repeats the values of a file; then every EVERY-th record can be from another file instead.
//
//   java -cp <Kafka's jars> Load.java BOOTSTRAP TOPIC PARTITIONS RECORDS CODEC BATCH_SIZE [VALUES [EVERY OTHERS]]
//
// Timestamps begin an hour ago and rise by one per thousand records. With -Dfirst.time=MS -Dspan.ms=MS -Dapart.ms=MS the
// timestamps of the first partition begin at first.time, those of each next one apart.ms later, spread over span.ms.
//
// It exists because Kafka's ProducerPerformance does not send keys. Prints the number of records once a second, and at the
// end the bytes of keys and values. A file of values holds the length of each value, an int, before the value.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
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
    static final long FIRST_TIME = Long.getLong("first.time", System.currentTimeMillis() - 3_600_000);
    static final long APART = Long.getLong("apart.ms", 0);
    static final Long SPAN = Long.getLong("span.ms");
    static final int THREADS = 2;

    interface Values {
        /** The key and the value of the next record of a partition. */
        byte[][] next();
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        long records = Long.parseLong(args[3]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "compression.type", args[4],
            "batch.size", args[5],
            "linger.ms", 100, // batches are full long before
            "buffer.memory", 128L << 20,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);

        List<byte[]> listed = args.length > 6 ? read(args[6]) : null;
        long every = args.length > 7 ? Long.parseLong(args[7]) : Long.MAX_VALUE;
        List<byte[]> others = args.length > 8 ? read(args[8]) : null;

        AtomicLong sent = new AtomicLong();
        AtomicLong bytes = new AtomicLong();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            Thread[] threads = new Thread[Math.min(THREADS, partitions)];
            for (int t = 0; t < threads.length; t++) {
                int first = t;
                threads[t] = new Thread(() -> {
                    for (int p = first; p < partitions && failure.get() == null; p += threads.length) {
                        long from = records * p / partitions;
                        long share = records * (p + 1) / partitions - from;
                        Values values = listed == null ? events(p) : listed(listed, every, others, from);
                        fill(producer, topic, p, share, values, sent, bytes, failure);
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

    static void fill(KafkaProducer<byte[], byte[]> producer, String topic, int partition, long records, Values values,
                     AtomicLong sent, AtomicLong bytes, AtomicReference<Throwable> failure) {
        for (long i = 0; i < records && failure.get() == null; i++) {
            byte[][] record = values.next();
            long time = FIRST_TIME + partition * APART + (SPAN == null ? i / 1000 : i * SPAN / records);
            producer.send(
                new ProducerRecord<>(topic, partition, time, record[0], record[1]),
                (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            bytes.addAndGet(record[0].length + record[1].length);
            sent.incrementAndGet();
        }
    }

    static Values events(int partition) {
        SplittableRandom random = new SplittableRandom(7_001 + partition);
        StringBuilder text = new StringBuilder(160);
        return () -> {
            // Some users are frequent, most are rare.
            int user = (int) (Math.pow(random.nextDouble(), 3) * 1_000_000);
            String key = "u" + (1_000_000 + user);
            text.setLength(0);
            text.append("{\"user\":\"").append(key)
                .append("\",\"event\":\"").append(EVENTS[random.nextInt(EVENTS.length)])
                .append("\",\"item\":").append(10_000 + (int) (Math.pow(random.nextDouble(), 2) * 80_000))
                .append(",\"country\":\"").append(COUNTRIES[random.nextInt(COUNTRIES.length)])
                .append("\",\"device\":\"").append(DEVICES[random.nextInt(DEVICES.length)])
                .append("\",\"ms\":").append(20 + random.nextInt(900)).append('}');
            return new byte[][] {ascii(key), ascii(text.toString())};
        };
    }

    /** Record n of the topic is value n of the list, which begins again at its end. The partitions follow each other. */
    static Values listed(List<byte[]> values, long every, List<byte[]> others, long from) {
        AtomicLong next = new AtomicLong(from);
        return () -> {
            long n = next.getAndIncrement();
            byte[] value = n % every == every - 1
                ? others.get((int) (n / every % others.size()))
                : values.get((int) (n % values.size()));
            return new byte[][] {ascii("u" + (1_000_000 + n * 7_919 % 1_000_000)), value};
        };
    }

    static List<byte[]> read(String file) throws IOException {
        ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(Path.of(file)));
        List<byte[]> values = new ArrayList<>();
        while (all.hasRemaining()) {
            byte[] value = new byte[all.getInt()];
            all.get(value);
            values.add(value);
        }
        return values;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
