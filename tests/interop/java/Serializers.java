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
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.MemberData;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Kafka's serializers behind a pipe: each line of standard input is a question in JSON, and each
 * line of standard output its answer.
 *
 * <p>Messages are the generated data classes, found by name, and travel in the JSON of Kafka's own
 * generated converters. The program runs unchanged with any Kafka client since 3.9, so it touches
 * what moved between them by reflection only.
 */
public final class Serializers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final String MESSAGES = "org.apache.kafka.common.message.";

    private Serializers() {}

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
            case "apis":
                return apis();
            case "errors":
                return errors();
            case "encode":
                return encode(question);
            case "decode":
                return decode(question);
            case "read-assignment":
                return readAssignment(bytes(question));
            case "write-sticky-data":
                return writeStickyData(question);
            case "read-sticky-data":
                return memberData(new StickyAssignor(), bytes(question));
            case "write-cooperative-data":
                return writeCooperativeData(question.get("generation").asInt());
            case "read-cooperative-data":
                return memberData(new CooperativeStickyAssignor(), bytes(question));
            default:
                throw new IllegalArgumentException("unknown operation in " + question);
        }
    }

    /** Every API with its number, its oldest and its newest version. */
    private static ObjectNode apis() {
        ObjectNode answer = JSON.createObjectNode();
        for (ApiKeys api : ApiKeys.values()) {
            answer.putObject(api.name())
                    .put("key", api.id)
                    .put("oldest", api.oldestVersion())
                    .put("latest", api.latestVersion());
        }
        return answer;
    }

    private static ObjectNode errors() {
        ObjectNode answer = JSON.createObjectNode();
        for (Errors error : Errors.values()) {
            answer.putObject(error.name())
                    .put("code", error.code())
                    .put("retriable", error.exception() instanceof RetriableException);
        }
        return answer;
    }

    /** A message as bytes, behind its header or its version if the question says so. */
    private static ObjectNode encode(JsonNode question) throws Exception {
        short version = (short) question.get("version").asInt();
        Message message = fromJson(question.get("message").asText(), question.get("json"), version);
        byte[] written = new byte[0];
        if (question.has("header")) {
            short headerVersion = headerVersion((ApiMessage) message, version);
            Message header = fromJson(headerOf(message), question.get("header"), headerVersion);
            if (headerVersion >= (isRequest(message) ? 2 : 1)) {
                addUnknownTags(header, question.get("header"), question.path("tags"));
            }
            written = bytes(header, headerVersion);
        }
        if (question.path("prefixed").asBoolean()) {
            return hex(MessageUtil.toVersionPrefixedByteBuffer(version, message));
        }
        addUnknownTags(message, question.get("json"), question.path("tags"));
        return hex(ByteBuffer.wrap(concatenated(written, bytes(message, version))));
    }

    /** The message in bytes, behind a header or its version if the question says so. */
    private static ObjectNode decode(JsonNode question) throws Exception {
        short version = (short) question.get("version").asInt();
        var data = new ByteBufferAccessor(bytes(question));
        Message message = newMessage(question.get("message").asText());
        ObjectNode answer = JSON.createObjectNode();
        if (question.path("header").asBoolean()) {
            short headerVersion = headerVersion((ApiMessage) message, version);
            Message header = newMessage(headerOf(message));
            header.read(data, headerVersion);
            answer.set("header", toJson(header, headerVersion));
        }
        if (question.path("prefixed").asBoolean()) {
            answer.put("version", data.readShort());
        }
        message.read(data, version);
        answer.set("json", toJson(message, version));
        return answer.put("left", data.remaining());
    }

    /** An assignment as a consumer reads it, of whatever version. */
    private static ObjectNode readAssignment(ByteBuffer data) {
        Assignment assignment = ConsumerProtocol.deserializeAssignment(data);
        ObjectNode answer = JSON.createObjectNode();
        answer.set("partitions", partitions(assignment.partitions()));
        ByteBuffer userData = assignment.userData();
        return answer.put("userData", userData == null ? null : HEX.formatHex(array(userData)));
    }

    private static ObjectNode writeStickyData(JsonNode question) throws Exception {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode pair : question.get("partitions")) {
            partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt()));
        }
        var data = new MemberData(partitions, Optional.of(question.get("generation").asInt()));
        Method write = StickyAssignor.class.getDeclaredMethod(
                "serializeTopicPartitionAssignment", MemberData.class);
        write.setAccessible(true);
        return hex((ByteBuffer) write.invoke(null, data));
    }

    @SuppressWarnings("removal") // the constructor goes with Kafka 5; all of ours have it
    private static ObjectNode writeCooperativeData(int generation) {
        var assignor = new CooperativeStickyAssignor();
        var membership = new ConsumerGroupMetadata("group", generation, "member", Optional.empty());
        assignor.onAssignment(new Assignment(List.of()), membership);
        return hex(assignor.subscriptionUserData(Set.of()));
    }

    /** What an assignor reads in the user data of a subscription that says nothing else. */
    private static ObjectNode memberData(AbstractStickyAssignor assignor, ByteBuffer userData)
            throws Exception {
        Method read = assignor.getClass().getDeclaredMethod("memberData", Subscription.class);
        read.setAccessible(true);
        var data = (MemberData) read.invoke(assignor, new Subscription(List.of(), userData));
        ObjectNode answer = JSON.createObjectNode();
        answer.set("partitions", partitions(data.partitions));
        return answer.put("generation", data.generation.orElse(null));
    }

    private static boolean isRequest(Message message) {
        return message.getClass().getSimpleName().endsWith("RequestData");
    }

    private static String headerOf(Message message) {
        return isRequest(message) ? "RequestHeader" : "ResponseHeader";
    }

    private static short headerVersion(ApiMessage message, short version) {
        ApiKeys api = ApiKeys.forId(message.apiKey());
        return isRequest(message)
                ? api.requestHeaderVersion(version)
                : api.responseHeaderVersion(version);
    }

    /** The data class of a message; those of the consumer protocol lack the usual ending. */
    private static Class<?> classOf(String message) throws ClassNotFoundException {
        boolean plain = message.startsWith("ConsumerProtocol");
        return Class.forName(MESSAGES + message + (plain ? "" : "Data"));
    }

    private static Message newMessage(String name) throws Exception {
        return (Message) classOf(name).getConstructor().newInstance();
    }

    private static Message fromJson(String name, JsonNode json, short version) throws Exception {
        Class<?> converter = Class.forName(classOf(name).getName() + "JsonConverter");
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        return (Message) read.invoke(null, json, version);
    }

    private static JsonNode toJson(Message message, short version) throws Exception {
        Class<?> type = message.getClass();
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        Method write = converter.getMethod("write", type, short.class);
        var json = (ObjectNode) write.invoke(null, message, version);
        addRecords(message, json);
        return json;
    }

    private static byte[] bytes(Message message, short version) {
        var cache = new ObjectSerializationCache();
        var accessor = new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
        message.write(accessor, cache, version);
        accessor.flip();
        return array(accessor.buffer());
    }

    /** Put records into the JSON, where the converters put an empty text in their place. */
    private static void addRecords(Message message, ObjectNode json) throws Exception {
        for (Field field : fieldsOf(message)) {
            Object value = field.get(message);
            JsonNode node = json.get(field.getName());
            if (value instanceof Iterable<?> values && node instanceof ArrayNode nodes) {
                Iterator<JsonNode> next = nodes.iterator();
                for (Object element : values) {
                    JsonNode elementNode = next.next();
                    if (element instanceof Message part) {
                        addRecords(part, (ObjectNode) elementNode);
                    }
                }
            } else if (value != null && field.getType().getSimpleName().equals("BaseRecords")) {
                var records = (ByteBuffer) value.getClass().getMethod("buffer").invoke(value);
                json.put(field.getName(), array(records));
            }
        }
    }

    /** Give a message, and all its parts that are in its JSON, tagged fields unknown to Kafka. */
    private static void addUnknownTags(Message message, JsonNode json, JsonNode tags)
            throws Exception {
        for (Iterator<String> each = tags.fieldNames(); each.hasNext(); ) {
            String tag = each.next();
            byte[] value = HEX.parseHex(tags.get(tag).asText());
            message.unknownTaggedFields().add(new RawTaggedField(Integer.parseInt(tag), value));
        }
        for (Field field : fieldsOf(message)) {
            Object value = field.get(message);
            JsonNode node = json.path(field.getName());
            if (value instanceof Message part && node.isObject()) {
                addUnknownTags(part, node, tags);
            } else if (value instanceof Iterable<?> values && node.isArray()) {
                Iterator<JsonNode> next = node.iterator();
                for (Object element : values) {
                    JsonNode elementNode = next.next();
                    if (element instanceof Message part) {
                        addUnknownTags(part, elementNode, tags);
                    }
                }
            }
        }
    }

    private static List<Field> fieldsOf(Message message) {
        List<Field> fields = new ArrayList<>();
        for (Field field : message.getClass().getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                fields.add(field);
            }
        }
        return fields;
    }

    private static ArrayNode partitions(List<TopicPartition> partitions) {
        ArrayNode pairs = JSON.createArrayNode();
        for (TopicPartition partition : partitions) {
            pairs.addArray().add(partition.topic()).add(partition.partition());
        }
        return pairs;
    }

    private static ByteBuffer bytes(JsonNode question) {
        return ByteBuffer.wrap(HEX.parseHex(question.get("hex").asText()));
    }

    private static ObjectNode hex(ByteBuffer data) {
        return JSON.createObjectNode().put("hex", HEX.formatHex(array(data)));
    }

    private static byte[] array(ByteBuffer data) {
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return copy;
    }

    private static byte[] concatenated(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }
}
