import java.util.Map;
import java.util.Optional;
import org.apache.beam.sdk.io.Read;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark;
import org.apache.beam.sdk.io.kafka.KafkaIO;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.io.kafka.TimestampPolicy;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PBegin;
import org.apache.beam.sdk.values.PCollection;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.joda.time.Instant;

/**
 * Reads a Kafka topic with watermarks and lateness from each partition's own log: the watermark is the newest timestamp
 * less the allowed delay, and a record is late, which the earliest of all timestamps marks, if its window was over by
 * then. So both are functions of the log, and a replay decides alike; no clock has a say. A partition without records
 * holds every window back: producers send heartbeats, which are records without content. Where these alone move the
 * watermark, no other record decides which records are late, or when windows end.
 */
public class ReadLog extends PTransform<PBegin, PCollection<KV<byte[], byte[]>>> {
  private final String servers, topic, group, settings;
  private final long delay, size, offset;
  private final boolean beatsAlone;

  private ReadLog(
      String servers, String topic, String group, String settings, long delay, long size, long offset,
      boolean beatsAlone) {
    this.servers = servers;
    this.topic = topic;
    this.group = group;
    this.settings = settings;
    this.delay = delay;
    this.size = size;
    this.offset = offset;
    this.beatsAlone = beatsAlone;
  }

  /**
   * Times are in milliseconds. Offsets are committed to the group once a checkpoint holds them, for monitors alone.
   * Settings of TLS and SASL are in a file of this name on each machine; empty for none.
   */
  public static ReadLog topic(
      String servers, String topic, String group, String settings, long delay, long size, long offset,
      boolean beatsAlone) {
    return new ReadLog(servers, topic, group, settings, delay, size, offset, beatsAlone);
  }

  @Override
  public PCollection<KV<byte[], byte[]>> expand(PBegin input) {
    return input.apply(Read.from(source()));
  }

  /** The source of the topic's values, and the lengths of what is joined in them. */
  public UnboundedSource<KV<byte[], byte[]>, KafkaCheckpointMark> source() {
    long delay = this.delay, size = this.size, offset = this.offset; // the policy must not take this transform along
    boolean beatsAlone = this.beatsAlone;
    String file = this.settings;
    KafkaIO.Read<byte[], byte[]> read =
        KafkaIO.<byte[], byte[]>read()
            .withBootstrapServers(servers)
            .withTopic(topic)
            .withKeyDeserializerAndCoder(ByteArrayDeserializer.class, MarkedSource.BYTES)
            .withValueDeserializerAndCoder(ByteArrayDeserializer.class, MarkedSource.BYTES)
            .withConsumerConfigUpdates(
                Map.of(
                    "auto.offset.reset", "earliest",
                    "group.id", group,
                    "isolation.level", "read_committed",
                    "max.poll.records", 1 << 14,
                    "max.partition.fetch.bytes", 1 << 22))
            .commitOffsetsInFinalize()
            .withConsumerFactoryFn(given -> new Batching(ClientSettings.with(given, file), size, offset))
            .withTimestampPolicyFactory((partition, before) -> new LogClock(delay, size, offset, beatsAlone, before));
    return new MarkedSource<>(sourceOf(read));
  }

  /** What {@code read} reads by itself; Beam has no public way to it. */
  @SuppressWarnings("unchecked")
  private static UnboundedSource<KafkaRecord<byte[], byte[]>, KafkaCheckpointMark> sourceOf(
      KafkaIO.Read<byte[], byte[]> read) {
    try {
      var make = KafkaIO.Read.class.getDeclaredMethod("makeSource");
      make.setAccessible(true);
      return (UnboundedSource<KafkaRecord<byte[], byte[]>, KafkaCheckpointMark>) make.invoke(read);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("this Beam makes Kafka's source in another way", error);
    }
  }

  private static class LogClock extends TimestampPolicy<byte[], byte[]> {
    private final long delay, size, offset, low, high;
    private final boolean beatsAlone;
    private Long newest;

    LogClock(long delay, long size, long offset, boolean beatsAlone, Optional<Instant> before) {
      this.delay = delay;
      this.size = size;
      this.offset = offset;
      this.beatsAlone = beatsAlone;
      // beyond these Beam cannot hold a record's window
      this.low = BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis() + size + delay;
      this.high = GlobalWindow.INSTANCE.maxTimestamp().getMillis() - size - delay;
      before.filter(BoundedWindow.TIMESTAMP_MIN_VALUE::isBefore).ifPresent(mark -> newest = mark.getMillis() + delay);
    }

    @Override
    public Instant getTimestampForRecord(PartitionContext partition, KafkaRecord<byte[], byte[]> record) {
      long moment = record.getTimestamp();
      if (moment < low || moment > high) {
        return BoundedWindow.TIMESTAMP_MIN_VALUE;
      }
      byte[] content = record.getKV().getValue();
      boolean isBeat = content == null || content.length == 0;
      long end = Math.floorDiv(moment - offset, size) * size + offset + size;
      boolean late = newest != null && end <= newest - delay;
      if (isBeat || !beatsAlone) {
        newest = newest == null ? moment : Math.max(newest, moment);
      }
      return late ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(moment);
    }

    @Override
    public Instant getWatermark(PartitionContext partition) {
      return newest == null ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(newest - delay);
    }
  }
}
