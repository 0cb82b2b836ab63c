import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.NullableCoder;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark;
import org.apache.beam.sdk.io.kafka.KafkaIO;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A topic, how its brokers are reached, and how time passes in it: see {@link ReadLog}. */
record Log(
    String servers, String topic, String group, String clientSettings, long delay, long size, long offset,
    boolean beatsAlone, long most, long first)
    implements Serializable {
  static final Coder<byte[]> BYTES = NullableCoder.of(ByteArrayCoder.of());

  private static final long ANY = Long.MIN_VALUE, MOST_AT_FIRST = 10_000; // windows, as streamsketch.intake.AheadLimit

  /** The number of the window in which a time lies. */
  long window(long moment) {
    return Math.floorDiv(moment - offset, size);
  }

  /** The number of the window in which the watermark lies that a record with this timestamp would move it to. */
  long windowOfWatermark(long timestamp) {
    return window(timestamp - delay);
  }

  /** The last window that the watermark may advance to after this newest timestamp, or without one. */
  long reach(Long newest) {
    if (newest == null) {
      return first == ANY ? Long.MAX_VALUE : first + Math.max(most, MOST_AT_FIRST);
    }
    return Math.max(windowOfWatermark(newest), first) + most;
  }

  /** A client that asks brokers about the topic. */
  Admin admin() {
    return Admin.create(ClientSettings.with(Map.of("bootstrap.servers", servers), clientSettings));
  }

  /** What reads some partitions. */
  @SuppressWarnings("unchecked") // Beam has no public way to what it reads by itself
  UnboundedSource<KafkaRecord<byte[], byte[]>, KafkaCheckpointMark> source(List<TopicPartition> partitions) {
    KafkaIO.Read<byte[], byte[]> read =
        KafkaIO.<byte[], byte[]>read()
            .withBootstrapServers(servers)
            .withTopicPartitions(partitions)
            .withKeyDeserializerAndCoder(ByteArrayDeserializer.class, BYTES)
            .withValueDeserializerAndCoder(ByteArrayDeserializer.class, BYTES)
            .withConsumerConfigUpdates(
                Map.of(
                    "auto.offset.reset", "none", // all offsets are stated: one that is gone is an error
                    "group.id", group,
                    "isolation.level", "read_committed",
                    "max.poll.records", 1 << 14,
                    "max.partition.fetch.bytes", 1 << 22))
            .commitOffsetsInFinalize()
            .withConsumerFactoryFn(given -> new Batching(ClientSettings.with(given, clientSettings), this))
            .withTimestampPolicyFactory((partition, before) -> new LogClock(this, before));
    try {
      var make = KafkaIO.Read.class.getDeclaredMethod("makeSource");
      make.setAccessible(true);
      return (UnboundedSource<KafkaRecord<byte[], byte[]>, KafkaCheckpointMark>) make.invoke(read);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("this Beam makes Kafka's source in another way", error);
    }
  }
}
