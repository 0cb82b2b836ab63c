import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Settings of TLS and SASL from a file in librdkafka's names, as Java's clients call them. */
class ClientSettings {
  private ClientSettings() {}

  /** Returns settings with those of the file of this name; an empty name is none. */
  static Map<String, Object> with(Map<String, Object> settings, String name) {
    if (name.isEmpty()) {
      return settings;
    }
    try {
      var found = new HashMap<>(settings);
      found.putAll(asJava(read(Path.of(name))));
      return found;
    } catch (IOException error) {
      throw new UncheckedIOException("the client settings cannot be read on this machine", error);
    }
  }

  private static Map<String, String> read(Path file) throws IOException {
    var found = new HashMap<String, String>();
    for (String line : Files.readAllLines(file)) {
      int equals = line.indexOf('=');
      if (!line.isBlank() && !line.strip().startsWith("#") && equals > 0) {
        found.put(line.substring(0, equals).strip(), line.substring(equals + 1).strip());
      }
    }
    return found;
  }

  private static Map<String, Object> asJava(Map<String, String> given) throws IOException {
    var found = new HashMap<String, Object>();
    String user = null, password = "", key = "", mechanism = "GSSAPI";
    for (var setting : given.entrySet()) {
      String value = setting.getValue();
      switch (setting.getKey()) {
        case "security.protocol" -> found.put("security.protocol", value.toUpperCase());
        case "ssl.ca.location" -> found.putAll(Map.of("ssl.truststore.type", "PEM", "ssl.truststore.location", value));
        case "ssl.certificate.location" ->
            found.putAll(
                Map.of("ssl.keystore.type", "PEM", "ssl.keystore.certificate.chain", Files.readString(Path.of(value))));
        case "ssl.key.location" -> found.put("ssl.keystore.key", Files.readString(Path.of(value)));
        case "ssl.key.password" -> found.put("ssl.key.password", value);
        case "ssl.endpoint.identification.algorithm" ->
            found.put("ssl.endpoint.identification.algorithm", value.equals("none") ? "" : value);
        case "sasl.mechanism", "sasl.mechanisms" -> mechanism = value;
        case "sasl.username" -> user = value;
        case "sasl.password" -> password = value;
        default -> throw new IllegalArgumentException("client settings of a job have no " + setting.getKey());
      }
    }
    if (user != null) {
      String module = mechanism.startsWith("SCRAM-") ? "scram.ScramLoginModule" : "plain.PlainLoginModule";
      found.put("sasl.mechanism", mechanism);
      found.put(
          "sasl.jaas.config",
          "org.apache.kafka.common.security." + module + " required username=" + quoted(user) + " password="
              + quoted(password) + ";");
    }
    return found;
  }

  private static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
