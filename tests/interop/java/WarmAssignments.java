import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Puts questions, one line of JSON each, to the assignor of Kafka Streams, and prints its answers.
 *
 * <p>A line with nothing but the milliseconds to spend, {"time": ...}, has the last question asked
 * again and again for so long, and prints how long one answer took, in nanoseconds: what this thread
 * used of the processor and what the garbage collector took. {"time": ..., "alone": true} asks for
 * the assignor's part alone; else it is all that a leader does, from what members said, once that is
 * decoded, to what each of them is to have, before that is encoded.
 */
public final class WarmAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Up to where each changelog goes: what a member lacks that has no copy at all. */
    private static final long END = 1_000_000L;
    private static final Method TO_THREADS = toThreadsMethod();

    private final Set<TaskId> tasks = new TreeSet<>();
    private final Map<TopicPartition, TaskId> partitions = new HashMap<>();
    private final Map<TaskId, Long> ends = new HashMap<>();
    private final List<Client> clients = new ArrayList<>();
    private final AssignmentConfigs configs;
    private final RackAwareTaskAssignor racks;
    private Map<ProcessId, ClientState> states = Map.of();
    /** Kept, so that no compiler finds that they are not needed. */
    private List<Object> shares = List.of();

    private record Client(ProcessId id, SortedMap<String, Told> threads, ClientState alone) {}

    /** What a member said. */
    private record Told(List<TopicPartition> owned, Map<TaskId, Long> offsets) {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        WarmAssignments last = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode said = JSON.readTree(line);
            if (said.has("time")) {
                System.out.println(
                    last.nanosPerAnswer(said.get("time").asDouble(), said.path("alone").asBoolean()));
            } else {
                last = new WarmAssignments(said);
                System.out.println(last.answer());
            }
        }
    }

    private WarmAssignments(JsonNode question) {
        int topics = question.get("topics").size();
        for (int topic = 0; topic < topics; topic++) {
            for (int n = 0; n < question.get("topics").get(topic).asInt(); n++) {
                TaskId task = new TaskId(topic, n);
                tasks.add(task);
                partitions.put(new TopicPartition(Integer.toString(topic), n), task);
                ends.put(task, END);
            }
        }
        for (JsonNode client : question.get("clients")) {
            ProcessId id = new ProcessId(new UUID(0, clients.size()));
            SortedMap<String, Told> threads = new TreeMap<>();
            for (JsonNode thread : client)
                threads.put(thread.get("id").asText(), toldBy(thread));
            clients.add(new Client(id, threads, stateOf(id, threads)));
        }
        configs = new AssignmentConfigs(
            question.get("acceptable_recovery_lag").asLong(),
            question.get("max_warmup_replicas").asInt(),
            question.get("num_standbys").asInt(),
            600_000L, List.of(), OptionalInt.empty(), OptionalInt.empty(), "none");
        racks = new RackAwareTaskAssignor(
            Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM);
    }

    private static Method toThreadsMethod() {
        try {
            Method method = StreamsPartitionAssignor.class.getDeclaredMethod(
                "assignTasksToThreads",
                Collection.class, boolean.class, SortedSet.class, ClientState.class, Map.class);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException problem) {
            throw new IllegalStateException("This Kafka has no such method", problem);
        }
    }

    private static Told toldBy(JsonNode said) {
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode pair : said.get("owned"))
            owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt()));
        Map<TaskId, Long> offsets = new HashMap<>();
        for (JsonNode copy : said.get("copies")) {
            long lag = copy.get(2).asLong();
            offsets.put(new TaskId(copy.get(0).asInt(), copy.get(1).asInt()), lag < 0 ? lag : END - lag);
        }
        return new Told(owned, offsets);
    }

    /** What StreamsPartitionAssignor makes of what the members of a process said. */
    private ClientState stateOf(ProcessId id, SortedMap<String, Told> threads) {
        ClientState state = new ClientState(id, Map.of());
        threads.forEach((name, thread) -> {
            state.incrementCapacity();
            state.addOwnedPartitions(thread.owned(), name);
            state.addPreviousTasksAndOffsetSums(name, thread.offsets());
        });
        state.initializePrevTasks(partitions, false);
        state.computeTaskLags(id, ends);
        return state;
    }

    /** The states are changed by the answer, so each answer starts with new ones. */
    private boolean assign(boolean alone) {
        states = new HashMap<>();
        for (Client client : clients)
            states.put(client.id(), alone ? new ClientState(client.alone()) : stateOf(client.id(), client.threads()));
        return new HighAvailabilityTaskAssignor().assign(states, tasks, tasks, racks, configs);
    }

    /** How StreamsPartitionAssignor shares out what each process got among its members. */
    private void toThreads() throws ReflectiveOperationException {
        for (Client client : clients) {
            ClientState state = states.get(client.id());
            SortedSet<String> names = new TreeSet<>(client.threads().keySet());
            Map<String, Integer> counts = new HashMap<>();
            shares = List.of(
                TO_THREADS.invoke(null, state.statefulActiveTasks(), true, names, state, counts),
                TO_THREADS.invoke(null, state.standbyTasks(), true, names, state, counts));
        }
    }

    private ObjectNode answer() throws ReflectiveOperationException {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("is_final", !assign(false));
        toThreads();
        for (Client client : clients) {
            ClientState state = states.get(client.id());
            answer.withArray("/active").add(state.activeTasks().size());
            answer.withArray("/standby").add(state.standbyTasks().size());
        }
        return answer;
    }

    private long nanosPerAnswer(double spend, boolean alone) throws ReflectiveOperationException {
        System.gc();
        long answers = 0;
        long start = System.nanoTime();
        long used = nanosUsed();
        do {
            assign(alone);
            if (!alone)
                toThreads();
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
