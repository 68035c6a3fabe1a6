import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Hosts members that use Kafka's own consumer; see recorder.py for orders and records. */
public final class SoakMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long AWAY_MS = 1000;
    private static final long APART_MS = 20;

    private static volatile boolean stopped;
    private static Writer records;

    private SoakMembers() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode orders = JSON.readTree(new File(arguments[0]));
        records = new FileWriter(orders.get("records").asText(), true);
        Thread waiting = new Thread(SoakMembers::waitForEnd);
        waiting.setDaemon(true);
        waiting.start();
        List<Thread> threads = new ArrayList<>();
        for (JsonNode member : orders.get("members")) {
            Thread thread = new Thread(() -> live(orders, member));
            thread.start();
            threads.add(thread);
            Thread.sleep(APART_MS);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    private static void waitForEnd() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is said, only the end counts.
            }
        } catch (IOException broken) {
            // That is an end as well.
        }
        stopped = true;
    }

    private static void live(JsonNode orders, JsonNode member) {
        for (int life = 1; !stopped; life++) {
            new Member(orders, member, life).run();
            try {
                Thread.sleep(AWAY_MS);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private static synchronized void write(ObjectNode line) {
        try {
            records.write(line + "\n");
            records.flush();
        } catch (IOException broken) {
            throw new IllegalStateException(broken);
        }
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    /** One life of a member. */
    private static final class Member implements ConsumerRebalanceListener {
        private final JsonNode orders;
        private final JsonNode member;
        private final int life;
        private final String topic;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<Integer, Long> done = new HashMap<>();
        private int generation = -1;
        private boolean hasJustCommitted;

        Member(JsonNode orders, JsonNode member, int life) {
            this.orders = orders;
            this.member = member;
            this.life = life;
            this.topic = orders.get("topic").asText();
            this.consumer = new KafkaConsumer<>(
                configuration(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        private Properties configuration() {
            List<String> bootstrap = new ArrayList<>();
            orders.get("bootstrap").forEach(address -> bootstrap.add(address.asText()));
            boolean cooperative = member.get("assignor").asText().startsWith("cooperative");
            Properties values = new Properties();
            values.put("bootstrap.servers", String.join(",", bootstrap));
            values.put("group.id", member.get("group").asText());
            values.put("client.id", member.get("name").asText());
            values.put("group.protocol", "classic");
            values.put("partition.assignment.strategy", List.of(
                cooperative ? CooperativeStickyAssignor.class : RangeAssignor.class));
            values.put("session.timeout.ms", orders.get("session_ms").asText());
            values.put("heartbeat.interval.ms", orders.get("heartbeat_ms").asText());
            values.put("max.poll.interval.ms", orders.get("rebalance_ms").asText());
            values.put("enable.auto.commit", "false");
            values.put("auto.offset.reset", "earliest");
            return values;
        }

        void run() {
            double commitS = orders.get("commit_s").asDouble();
            double stayS = member.get("stay_s").asDouble();
            double until = stayS > 0 ? now() + stayS : Double.POSITIVE_INFINITY;
            double due = now() + ThreadLocalRandom.current().nextDouble(commitS);
            consumer.subscribe(List.of(topic), this);
            while (!stopped) {
                // When it has just been answered, its leaving will most probably be heard.
                if (now() > until && hasJustCommitted) {
                    break;
                }
                hasJustCommitted = false;
                attempt(() -> consumer.poll(POLL));
                tellGeneration();
                attempt(this::read);
                if (now() >= due && !done.isEmpty()) {
                    due = Math.max(due + commitS, now());
                    countAndCommit();
                }
            }
            write(line("left"));
            attempt(consumer::close);
        }

        private void attempt(Runnable action) {
            try {
                action.run();
            } catch (RuntimeException error) {
                ObjectNode line = line("error");
                line.put("error", error.toString());
                write(line);
            }
        }

        private void tellGeneration() {
            int number = consumer.groupMetadata().generationId();
            if (number != generation && number >= 0) {
                generation = number;
                ObjectNode line = line("generation");
                line.put("number", number);
                write(line);
            }
        }

        private void read() {
            Set<TopicPartition> fresh = new HashSet<>(consumer.assignment());
            fresh.removeIf(each -> done.containsKey(each.partition()));
            if (fresh.isEmpty()) {
                return;
            }
            double asked = now();
            Map<Integer, Long> found = new HashMap<>();
            consumer.committed(fresh).forEach((each, offset) ->
                found.put(each.partition(), offset == null ? 0 : offset.offset()));
            writeOffsets("read", asked, found, null);
            done.putAll(found);
        }

        private void countAndCommit() {
            done.replaceAll((partition, offset) -> offset + 1);
            Map<Integer, Long> counted = new HashMap<>(done);
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            counted.forEach((partition, offset) ->
                offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset)));
            double asked = now();
            writeOffsets("sent", asked, counted, null);
            try {
                consumer.commitSync(offsets);
            } catch (RuntimeException error) {
                writeOffsets("failed", asked, counted, error.toString());
                return;
            }
            writeOffsets("acked", asked, counted, null);
            hasJustCommitted = true;
        }

        private ObjectNode line(String what) {
            ObjectNode line = JSON.createObjectNode();
            line.put("at", now());
            line.put("member", member.get("name").asText());
            line.put("life", life);
            line.put("what", what);
            return line;
        }

        private void writeOffsets(
                String what, double asked, Map<Integer, Long> offsets, String error) {
            ObjectNode line = line(what);
            line.put("asked", asked);
            ObjectNode told = line.putObject("offsets");
            offsets.forEach((partition, offset) -> told.put(String.valueOf(partition), offset));
            if (error != null) {
                line.put("error", error);
            }
            write(line);
        }

        private void writePartitions(String what, Collection<TopicPartition> partitions) {
            ObjectNode line = line(what);
            line.putPOJO("partitions", partitions.stream()
                .map(TopicPartition::partition).sorted().collect(Collectors.toList()));
            write(line);
        }

        private void gave(String what, Collection<TopicPartition> partitions) {
            partitions.forEach(each -> done.remove(each.partition()));
            writePartitions(what, partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            writePartitions("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            gave("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            gave("lost", partitions);
        }
    }
}
