import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group that uses Kafka's own consumer; its lines are those of tests/live/member.py. */
public final class ConsumerMember {
    private static final Duration POLL = Duration.ofMillis(50);

    private final Map<String, String> options;
    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();

    private ConsumerMember(Map<String, String> options) {
        this.options = options;
        this.topic = options.get("topic");
        this.consumer = new KafkaConsumer<>(
            configuration(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        new ConsumerMember(options).run();
        System.exit(0);
    }

    private Properties configuration() {
        boolean cooperative = options.get("assignor").startsWith("cooperative");
        Properties values = new Properties();
        values.put("bootstrap.servers", options.get("bootstrap"));
        values.put("group.id", options.get("group"));
        values.put("client.id", options.get("client"));
        values.put("group.protocol", "classic");
        values.put("partition.assignment.strategy", List.of(
            cooperative ? CooperativeStickyAssignor.class : RangeAssignor.class));
        values.put("session.timeout.ms", options.get("session_ms"));
        values.put("heartbeat.interval.ms", options.get("heartbeat_ms"));
        values.put("max.poll.interval.ms", options.get("rebalance_ms"));
        values.put("enable.auto.commit", "false");
        values.put("auto.offset.reset", "earliest");
        values.put("reconnect.backoff.max.ms", "500");
        // By default it forgets all topics while its only broker is away, and its leader joins
        // again because they seem to have changed.
        values.put("metadata.recovery.strategy", options.getOrDefault("recovery", "none"));
        login(values);
        if (options.containsKey("instance")) {
            values.put("group.instance.id", options.get("instance"));
        }
        return values;
    }

    /** How to log in, if it has to: MECHANISM USER PASSWORD, or a file with a token. */
    private static void login(Properties values) {
        String login = System.getenv("MEMBER_LOGIN");
        if (login == null) {
            return;
        }
        String[] words = login.split(" ");
        values.put("security.protocol", "SASL_PLAINTEXT");
        values.put("sasl.mechanism", words[0]);
        if (words[0].equals("OAUTHBEARER")) {
            String url = "file://" + words[2];
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", words[2]);
            values.put("sasl.oauthbearer.token.endpoint.url", url);
            values.put("sasl.login.callback.handler.class",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler");
            values.put("sasl.jaas.config",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;");
            return;
        }
        String module = words[0].equals("PLAIN") ? "plain.Plain" : "scram.Scram";
        values.put("sasl.jaas.config", String.format(
            "org.apache.kafka.common.security.%sLoginModule required username=\"%s\" password=\"%s\";",
            module, words[1], words[2]));
    }

    private void run() {
        Thread reader = new Thread(this::readCommands);
        reader.setDaemon(true);
        reader.start();
        consumer.subscribe(List.of(topic), new Listener());
        String command = "";
        while (!command.equals("close")) {
            String line = commands.poll();
            if (line == null) {
                consumer.poll(POLL);
                continue;
            }
            command = line.split(" ")[0];
            try {
                obey(command, line);
            } catch (RuntimeException failure) {
                say("failed " + command + " " + failure);
            }
        }
    }

    private void readCommands() {
        try (BufferedReader input = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException broken) {
            say("error " + broken);
        }
        commands.add("close");
    }

    private void obey(String command, String line) {
        switch (command) {
            case "commit" -> {
                consumer.commitSync(offsetsIn(line));
                say("done commit");
            }
            case "committed" -> sayOffsets(command, committed());
            case "positions" -> sayOffsets(command, positions());
            case "close" -> {
                consumer.close();
                say("done close");
            }
            default -> throw new IllegalArgumentException(line);
        }
    }

    private Map<TopicPartition, OffsetAndMetadata> offsetsIn(String line) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        String[] words = line.split(" ");
        for (int at = 1; at < words.length; at++) {
            String[] pair = words[at].split("=");
            offsets.put(
                new TopicPartition(topic, Integer.parseInt(pair[0])),
                new OffsetAndMetadata(Long.parseLong(pair[1])));
        }
        return offsets;
    }

    private Map<Integer, Long> committed() {
        Map<Integer, Long> offsets = new TreeMap<>();
        // The first answer may be to a question that the consumer asked while it polled, before
        // anything was committed: it takes that for its own answer if it was still to come.
        consumer.committed(new HashSet<>(consumer.assignment()));
        consumer.committed(new HashSet<>(consumer.assignment())).forEach(
            (partition, offset) ->
                offsets.put(partition.partition(), offset == null ? -1 : offset.offset()));
        return offsets;
    }

    private Map<Integer, Long> positions() {
        Map<Integer, Long> offsets = new TreeMap<>();
        for (TopicPartition partition : consumer.assignment()) {
            offsets.put(partition.partition(), consumer.position(partition));
        }
        return offsets;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void sayOffsets(String command, Map<Integer, Long> offsets) {
        say(offsets.entrySet().stream()
            .map(offset -> " " + offset.getKey() + "=" + offset.getValue())
            .collect(Collectors.joining("", "done " + command, "")));
    }

    private static void sayPartitions(String what, Collection<TopicPartition> partitions) {
        say(partitions.stream()
            .map(partition -> String.valueOf(partition.partition()))
            .collect(Collectors.joining(",", what + " ", " at=" + System.nanoTime() / 1e9)));
    }

    /** Tells what comes and goes. */
    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            sayPartitions("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            sayPartitions("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            sayPartitions("lost", partitions);
        }
    }
}
