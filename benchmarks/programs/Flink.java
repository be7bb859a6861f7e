// A bounded read by Flink's KafkaSource: only the values, into a sink that drops them, repeatedly in one JVM.
//
//   java -cp <Flink's jars> Flink.java PARALLELISM         then on standard input:    BOOTSTRAP TOPIC [verify]
//
// Answers each line with: "ran", seconds of execute(), seconds of the job itself, records, bytes of values.
// The last two are 0 without `verify`: counting needs an operator of its own.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Locale;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Flink {
    public static void main(String[] args) throws Exception {
        int parallelism = Integer.parseInt(args[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String request; (request = requests.readLine()) != null; ) {
            String[] words = request.split(" ");
            System.out.println(run(parallelism, words[0], words[1], words.length > 2));
        }
        System.exit(0); // threads of Flink may still run
    }

    static String run(int parallelism, String bootstrap, String topic, boolean verify) throws Exception {
        long began = System.nanoTime();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism);
        KafkaSource<byte[]> source = KafkaSource.<byte[]>builder()
            .setBootstrapServers(bootstrap)
            .setTopics(topic)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setDeserializer(KafkaRecordDeserializationSchema.valueOnly(ByteArrayDeserializer.class))
            .build();
        DataStream<byte[]> values = environment.fromSource(source, WatermarkStrategy.noWatermarks(), "kafka");
        if (verify) {
            values = values.filter(new Counting());
        }
        values.sinkTo(new DiscardingSink<>());
        JobExecutionResult result = environment.execute();
        double seconds = (System.nanoTime() - began) / 1e9;
        long rows = verify ? result.<Long>getAccumulatorResult("rows") : 0;
        long bytes = verify ? result.<Long>getAccumulatorResult("bytes") : 0;
        return String.format(Locale.ROOT, "ran %.4f %.4f %d %d", seconds, result.getNetRuntime() / 1e3, rows, bytes);
    }

    public static class Counting extends RichFilterFunction<byte[]> {
        private final LongCounter rows = new LongCounter();
        private final LongCounter bytes = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("rows", rows);
            getRuntimeContext().addAccumulator("bytes", bytes);
        }

        @Override
        public boolean filter(byte[] value) {
            rows.add(1);
            bytes.add(value.length);
            return true;
        }
    }
}
