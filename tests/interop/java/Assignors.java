import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Puts questions, one line of JSON each, to Kafka's own assignors, and prints their answers.
 *
 * A line with nothing but the milliseconds to spend, {"time": ...}, has the last question asked
 * again and again for so long, and prints how long one answer took, in nanoseconds: what this
 * thread used of the processor and what the garbage collector took. Such a program is also told not
 * to answer the questions themselves, by the argument "silent".
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Callable<Map<String, Assignment>> last;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode said = JSON.readTree(line);
            if (said.has("time")) {
                System.out.println(nanosPerAnswer(said.get("time").asDouble()));
                continue;
            }
            last = asked(said);
            System.out.println(args.length > 0 ? "{}" : answer(last.call()));
        }
    }

    private static long nanosPerAnswer(double spend) throws Exception {
        System.gc();
        long answers = 0;
        long start = System.nanoTime();
        long used = nanosUsed();
        do {
            last.call();
            answers++;
        } while (System.nanoTime() - start < spend * 1e6);
        return (nanosUsed() - used) / answers;
    }

    private static long nanosUsed() {
        long collected = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans())
            collected += collector.getCollectionTime();
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() + collected * 1_000_000;
    }

    private static Callable<Map<String, Assignment>> asked(JsonNode question) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : question.get("members"))
            members.put(member.get("id").asText(), subscription(member));
        ConsumerPartitionAssignor assignor = assignor(question.get("assignor").asText());
        Cluster cluster = cluster(question.get("topics"));
        GroupSubscription group = new GroupSubscription(members);
        return () -> assignor.assign(cluster, group).groupAssignment();
    }

    private static String answer(Map<String, Assignment> given) throws IOException {
        ObjectNode answer = JSON.createObjectNode();
        given.forEach((id, assignment) -> answer.set(id, pairs(assignment.partitions())));
        return JSON.writeValueAsString(answer);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    /** A topic is a list of partitions, a partition the list of its replicas' racks. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks)
                    replicas.add(nodes.computeIfAbsent(
                            rack.asText(), name -> new Node(nodes.size(), "host", 9092, name)));
                Node[] array = replicas.toArray(new Node[0]);
                int number = partitions.size();
                partitions.add(new PartitionInfo(topic.getKey(), number, null, array, array));
            }
        });
        return new Cluster("id", nodes.values(), numbered(partitions), Set.of(), Set.of());
    }

    /** Partitions count from 0 in each topic. */
    private static List<PartitionInfo> numbered(List<PartitionInfo> partitions) {
        Map<String, Integer> next = new HashMap<>();
        List<PartitionInfo> result = new ArrayList<>();
        for (PartitionInfo p : partitions) {
            int number = next.merge(p.topic(), 1, Integer::sum) - 1;
            result.add(new PartitionInfo(p.topic(), number, null, p.replicas(), p.inSyncReplicas()));
        }
        return result;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(
                pair -> owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        ByteBuffer data = member.get("user_data").isNull() ? null
                : ByteBuffer.wrap(HexFormat.of().parseHex(member.get("user_data").asText()));
        Subscription subscription = new Subscription(
                topics, data, owned, member.get("generation").asInt(), text(member.get("rack")));
        subscription.setGroupInstanceId(text(member.get("instance")));
        return subscription;
    }

    private static Optional<String> text(JsonNode node) {
        return node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }

    private static ArrayNode pairs(List<TopicPartition> partitions) {
        ArrayNode array = JSON.createArrayNode();
        for (TopicPartition partition : partitions)
            array.addArray().add(partition.topic()).add(partition.partition());
        return array;
    }
}
