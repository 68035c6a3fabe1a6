import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.internals.generated.SubscriptionInfoData;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;
import org.slf4j.LoggerFactory;

/**
 * What Kafka Streams' members tell each other, behind a pipe: each line of standard input is a
 * question in JSON, and each line of standard output its answer.
 *
 * <p>Maps and sets go in and out as arrays, in the order in which Kafka walks through them.
 */
public final class StreamsInfos {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private StreamsInfos() {}

    public static void main(String[] args) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (InvocationTargetException e) {
                answer = JSON.createObjectNode().put("error", e.getCause().toString());
            } catch (Exception e) {
                answer = JSON.createObjectNode().put("error", e.toString());
            }
            System.out.write(JSON.writeValueAsBytes(answer));
            System.out.write('\n');
            System.out.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        switch (question.get("op").asText()) {
            case "write-subscription":
                return hex(subscription(question).encode());
            case "read-subscription":
                return told(SubscriptionInfo.decode(bytes(question)));
            case "write-assignment":
                return hex(assignment(question).encode());
            case "read-assignment":
                return told(AssignmentInfo.decode(bytes(question)));
            case "next-version":
                return nextVersion(question);
            default:
                throw new IllegalArgumentException("unknown operation in " + question);
        }
    }

    private static SubscriptionInfo subscription(JsonNode said) {
        Map<TaskId, Long> sums = new LinkedHashMap<>();
        for (JsonNode pair : said.get("tasks")) {
            sums.put(task(pair.get(0)), pair.get(1).asLong());
        }
        Map<String, String> tags = new LinkedHashMap<>();
        for (JsonNode pair : said.get("tags")) {
            tags.put(pair.get(0).asText(), pair.get(1).asText());
        }
        return new SubscriptionInfo(
                said.get("version").asInt(),
                said.get("latest").asInt(),
                new ProcessId(UUID.fromString(said.get("process").asText())),
                textOrNull(said.get("endpoint")),
                sums,
                (byte) said.get("unique").asInt(),
                said.get("code").asInt(),
                tags);
    }

    private static ObjectNode told(SubscriptionInfo info) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("version", info.version()).put("latest", info.latestSupportedVersion());
        answer.put("process", info.processId().id().toString());
        answer.put("endpoint", info.userEndPoint());
        ArrayNode tasks = answer.putArray("tasks");
        info.taskOffsetSums().forEach((task, sum) -> tasks.addArray().add(told(task)).add(sum));
        Field data = SubscriptionInfo.class.getDeclaredField("data");
        data.setAccessible(true);
        answer.put("unique", ((SubscriptionInfoData) data.get(info)).uniqueField());
        answer.put("code", info.errorCode());
        ArrayNode tags = answer.putArray("tags");
        info.clientTags().forEach((key, value) -> tags.addArray().add(key).add(value));
        return answer;
    }

    private static AssignmentInfo assignment(JsonNode said) {
        List<TaskId> active = new ArrayList<>();
        said.get("active").forEach(node -> active.add(task(node)));
        Map<TaskId, Set<TopicPartition>> standby = new LinkedHashMap<>();
        for (JsonNode pair : said.get("standby")) {
            standby.put(task(pair.get(0)), partitions(pair.get(1)));
        }
        var info = new AssignmentInfo(
                said.get("version").asInt(),
                said.get("commonly").asInt(),
                active,
                standby,
                byHost(said.get("hosts")),
                byHost(said.get("standbyHosts")),
                said.get("code").asInt());
        info.setNextRebalanceTime(said.get("next").asLong());
        return info;
    }

    private static ObjectNode told(AssignmentInfo info) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("version", info.version()).put("commonly", info.commonlySupportedVersion());
        ArrayNode active = answer.putArray("active");
        info.activeTasks().forEach(task -> active.add(told(task)));
        ArrayNode standby = answer.putArray("standby");
        info.standbyTasks().forEach(
                (task, partitions) -> standby.addArray().add(told(task)).add(told(partitions)));
        answer.set("hosts", told(info.partitionsByHost()));
        answer.set("standbyHosts", told(info.standbyPartitionByHost()));
        return answer.put("code", info.errCode()).put("next", info.nextRebalanceMs());
    }

    /** The version in which a member writes after it has received an assignment. */
    private static ObjectNode nextVersion(JsonNode said) throws Exception {
        var assignor = new StreamsPartitionAssignor();
        Field log = StreamsPartitionAssignor.class.getDeclaredField("log");
        log.setAccessible(true);
        log.set(assignor, LoggerFactory.getLogger(StreamsInfos.class));
        Field used = StreamsPartitionAssignor.class.getDeclaredField("usedSubscriptionMetadataVersion");
        used.setAccessible(true);
        used.setInt(assignor, said.get("used").asInt());
        Method hear = StreamsPartitionAssignor.class.getDeclaredMethod(
                "maybeUpdateSubscriptionVersion", int.class, int.class);
        hear.setAccessible(true);
        hear.invoke(assignor, said.get("received").asInt(), said.get("commonly").asInt());
        return JSON.createObjectNode().put("next", used.getInt(assignor));
    }

    private static TaskId task(JsonNode node) {
        return new TaskId(node.get(0).asInt(), node.get(1).asInt(), textOrNull(node.get(2)));
    }

    private static ArrayNode told(TaskId task) {
        return JSON.createArrayNode()
                .add(task.subtopology()).add(task.partition()).add(task.topologyName());
    }

    private static Set<TopicPartition> partitions(JsonNode pairs) {
        Set<TopicPartition> partitions = new LinkedHashSet<>();
        for (JsonNode pair : pairs) {
            partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt()));
        }
        return partitions;
    }

    private static ArrayNode told(Set<TopicPartition> partitions) {
        ArrayNode pairs = JSON.createArrayNode();
        partitions.forEach(each -> pairs.addArray().add(each.topic()).add(each.partition()));
        return pairs;
    }

    private static Map<HostInfo, Set<TopicPartition>> byHost(JsonNode pairs) {
        Map<HostInfo, Set<TopicPartition>> byHost = new LinkedHashMap<>();
        for (JsonNode pair : pairs) {
            JsonNode host = pair.get(0);
            byHost.put(new HostInfo(host.get(0).asText(), host.get(1).asInt()), partitions(pair.get(1)));
        }
        return byHost;
    }

    private static ArrayNode told(Map<HostInfo, Set<TopicPartition>> byHost) {
        ArrayNode pairs = JSON.createArrayNode();
        byHost.forEach((host, partitions) -> {
            ArrayNode pair = pairs.addArray();
            pair.addArray().add(host.host()).add(host.port());
            pair.add(told(partitions));
        });
        return pairs;
    }

    private static String textOrNull(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static ByteBuffer bytes(JsonNode question) {
        return ByteBuffer.wrap(HEX.parseHex(question.get("hex").asText()));
    }

    private static ObjectNode hex(ByteBuffer data) {
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return JSON.createObjectNode().put("hex", HEX.formatHex(copy));
    }
}
