// Sends records at a steady rate. Each value holds the time at which it was sent.
//
//   java -cp <Kafka's jars> SteadyProducer.java BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND
//
// A value is the nanoseconds since 1970, 8 bytes big-endian, and 92 more bytes. The rate does not depend on the reader: a
// record is sent when it is due, however late the last one was. Prints "sending" when the broker has the first record.
// Ends with its standard input, and then prints the number of records sent and the largest delay in milliseconds.

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class SteadyProducer {
    static final int VALUE_BYTES = 100;

    static volatile boolean ended = false;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        long interval = 1_000_000_000L / Long.parseLong(args[3]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "linger.ms", 0,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);
        AtomicReference<Exception> failure = new AtomicReference<>();
        long sent = 0;
        long latest = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            producer.send(new ProducerRecord<>(topic, 0, null, stamped())).get();
            System.out.println("sending");
            Thread waiting = new Thread(SteadyProducer::awaitEnd);
            waiting.setDaemon(true);
            waiting.start();
            long began = System.nanoTime();
            while (!ended && failure.get() == null) {
                long due = began + sent * interval;
                long now;
                while ((now = System.nanoTime()) < due) {
                    LockSupport.parkNanos(due - now);
                }
                latest = Math.max(latest, now - due);
                producer.send(new ProducerRecord<>(topic, (int) (sent % partitions), null, stamped()), (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
                sent++;
            }
        }
        if (failure.get() != null) {
            failure.get().printStackTrace();
            System.exit(1);
        }
        System.out.println(String.format(Locale.ROOT, "sent %d %.1f", sent, latest / 1e6));
    }

    static byte[] stamped() {
        Instant now = Instant.now();
        long nanoseconds = now.getEpochSecond() * 1_000_000_000L + now.getNano();
        return ByteBuffer.allocate(VALUE_BYTES).putLong(nanoseconds).array();
    }

    static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                // Ignore all input up to its end.
            }
        } catch (java.io.IOException gone) {
            // The end, too.
        }
        ended = true;
    }
}
