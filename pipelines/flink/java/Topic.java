import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What the demo and the tests do with a topic, so that Python needs no client: {@code create TOPIC PARTITIONS}, {@code grow
 * TOPIC PARTITIONS} to so many, {@code write TOPIC} from standard input, {@code read TOPIC} to standard output, what is committed. A record is its partition
 * (int), timestamp (long, ms), length (int) and bytes, big-endian; one that is read has its key as well, length first (-1 without a key).
 * {@code write} flushes, and prints a line, when a record has no length.
 */
public class Topic {
  public static void main(String[] arguments) throws Exception {
    Map<String, Object> server = Map.of("bootstrap.servers", arguments[0]);
    switch (arguments[1]) {
      case "create" -> {
        try (Admin admin = Admin.create(server)) {
          var topic = new NewTopic(arguments[2], Integer.parseInt(arguments[3]), (short) 1);
          admin.createTopics(List.of(topic)).all().get();
        }
      }
      case "grow" -> {
        try (Admin admin = Admin.create(server)) {
          var all = NewPartitions.increaseTo(Integer.parseInt(arguments[3]));
          admin.createPartitions(Map.of(arguments[2], all)).all().get();
        }
      }
      case "write" -> write(server, arguments[2]);
      case "read" -> read(server, arguments[2]);
      default -> throw new IllegalArgumentException(arguments[1]);
    }
  }

  private static void write(Map<String, Object> server, String topic) throws Exception {
    var serializer = new ByteArraySerializer();
    var settings = new HashMap<>(server);
    settings.putAll(Map.of("acks", "all", "linger.ms", 5, "batch.size", 1 << 20, "max.request.size", 1 << 22));
    try (var producer = new KafkaProducer<>(settings, serializer, serializer);
        var input = new DataInputStream(new BufferedInputStream(System.in, 1 << 20))) {
      while (true) {
        int partition;
        try {
          partition = input.readInt();
        } catch (EOFException end) {
          return;
        }
        long moment = input.readLong();
        int length = input.readInt();
        if (length < 0) {
          producer.flush();
          System.out.println("written");
          continue;
        }
        producer.send(new ProducerRecord<>(topic, partition, moment, null, input.readNBytes(length)));
      }
    }
  }

  private static void read(Map<String, Object> server, String topic) throws Exception {
    var deserializer = new ByteArrayDeserializer();
    var settings = new HashMap<>(server);
    settings.put("isolation.level", "read_committed");
    try (var consumer = new KafkaConsumer<>(settings, deserializer, deserializer);
        var output = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20))) {
      var partitions =
          consumer.partitionsFor(topic).stream()
              .map(found -> new TopicPartition(topic, found.partition()))
              .collect(Collectors.toList());
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
        for (var record : consumer.poll(Duration.ofSeconds(1))) {
          output.writeInt(record.partition());
          output.writeLong(record.timestamp());
          byte[] value = record.value() == null ? new byte[0] : record.value();
          output.writeInt(value.length);
          output.write(value);
          output.writeInt(record.key() == null ? -1 : record.key().length);
          output.write(record.key() == null ? new byte[0] : record.key());
        }
      }
    }
  }
}
