// Reads texts, each as hexadecimal Latin-1 on a line behind what it is, as Java and Kafka read them.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

public class PropertyFiles {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] text = HexFormat.of().parseHex(line.substring(2));
            try {
                System.out.println(shown(line.charAt(0) == 'P' ? properties(text) : jaas(text)));
            } catch (RuntimeException error) {
                System.out.println("ERROR");
            }
        }
    }

    private static Map<String, String> properties(byte[] text) throws Exception {
        Properties found = new Properties();
        found.load(new ByteArrayInputStream(text));
        Map<String, String> sorted = new TreeMap<>();
        // Kafka trims the values.
        found.forEach((key, value) -> sorted.put((String) key, ((String) value).trim()));
        return sorted;
    }

    private static Map<String, String> jaas(byte[] text) {
        Password config = new Password(new String(text, StandardCharsets.ISO_8859_1));
        JaasContext context = JaasContext.loadClientContext(Map.of("sasl.jaas.config", config));
        Map<String, String> sorted = new TreeMap<>();
        var entry = context.configurationEntries().get(0);
        sorted.put("", entry.getLoginModuleName());
        entry.getOptions().forEach((key, value) -> sorted.put(key, (String) value));
        return sorted;
    }

    private static String shown(Map<String, String> found) {
        StringBuilder text = new StringBuilder();
        found.forEach((key, value) -> text.append(hex(key)).append('=').append(hex(value)).append(' '));
        return text.toString();
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
