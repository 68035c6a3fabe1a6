import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Puts questions, one line of JSON each, to the assignor of Kafka Streams, and prints its answers.
 *
 * <p>A line with nothing but the milliseconds to spend, {"time": ...}, has the last question asked
 * again and again for so long, and prints how long one answer took, in nanoseconds: what this thread
 * used of the processor and what the garbage collector took.
 */
public final class WarmAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** What a member lacks that has no copy at all. */
    private static final long NO_COPY = 1_000_000L;

    private final Set<TaskId> tasks = new TreeSet<>();
    private final List<Client> clients = new ArrayList<>();
    private final AssignmentConfigs configs;
    private final RackAwareTaskAssignor racks;
    private Map<ProcessId, ClientState> states = Map.of();

    private record Client(
            ProcessId id, Set<TaskId> active, Set<TaskId> standby, Map<TaskId, Long> lags, int threads) {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        WarmAssignments last = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode said = JSON.readTree(line);
            if (said.has("time")) {
                System.out.println(last.nanosPerAnswer(said.get("time").asDouble()));
            } else {
                last = new WarmAssignments(said);
                System.out.println(last.answer());
            }
        }
    }

    private WarmAssignments(JsonNode question) {
        int topics = question.get("topics").size();
        for (int topic = 0; topic < topics; topic++)
            for (int n = 0; n < question.get("topics").get(topic).asInt(); n++)
                tasks.add(new TaskId(topic, n));
        for (JsonNode client : question.get("clients")) {
            Map<TaskId, Long> lags = new HashMap<>();
            for (TaskId task : tasks)
                lags.put(task, NO_COPY);
            for (JsonNode copy : client.get("copies"))
                lags.put(task(copy), copy.get(2).asLong());
            lags = new TreeMap<>(lags);
            clients.add(new Client(
                new ProcessId(new UUID(0, clients.size())),
                tasksOf(client.get("active")), tasksOf(client.get("standby")), lags,
                client.get("threads").asInt()));
        }
        configs = new AssignmentConfigs(
            question.get("acceptable_recovery_lag").asLong(),
            question.get("max_warmup_replicas").asInt(),
            question.get("num_standbys").asInt(),
            600_000L, List.of(), OptionalInt.empty(), OptionalInt.empty(), "none");
        racks = new RackAwareTaskAssignor(
            Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM);
    }

    private static TaskId task(JsonNode pair) {
        return new TaskId(pair.get(0).asInt(), pair.get(1).asInt());
    }

    private static Set<TaskId> tasksOf(JsonNode pairs) {
        Set<TaskId> found = new TreeSet<>();
        for (JsonNode pair : pairs)
            found.add(task(pair));
        return found;
    }

    /** The states are changed by the answer, so each answer starts with new ones. */
    private boolean assign() {
        states = new HashMap<>();
        for (Client client : clients)
            states.put(client.id(), new ClientState(
                client.active(), client.standby(), client.lags(), Map.of(), client.threads(), client.id()));
        return new HighAvailabilityTaskAssignor().assign(states, tasks, tasks, racks, configs);
    }

    private ObjectNode answer() {
        ObjectNode answer = JSON.createObjectNode().put("is_final", !assign());
        for (Client client : clients) {
            ClientState state = states.get(client.id());
            answer.withArray("/active").add(state.activeTasks().size());
            answer.withArray("/standby").add(state.standbyTasks().size());
        }
        return answer;
    }

    private long nanosPerAnswer(double spend) {
        System.gc();
        long answers = 0;
        long start = System.nanoTime();
        long used = nanosUsed();
        do {
            assign();
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
}
