import java.util.Map;
import java.util.Optional;
import org.apache.beam.sdk.io.kafka.KafkaIO;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.io.kafka.TimestampPolicy;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PBegin;
import org.apache.beam.sdk.values.PCollection;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.joda.time.Instant;

/**
 * Reads a Kafka topic with watermarks and lateness from each partition's own log: the watermark is the newest timestamp
 * less the allowed delay, and a record is late, which the earliest of all timestamps marks, if its window was over by
 * then. So both are functions of the log, and a replay decides alike; no clock has a say. A partition without records
 * holds every window back: producers send heartbeats.
 */
public class ReadLog extends PTransform<PBegin, PCollection<KV<byte[], byte[]>>> {
  private final String servers, topic;
  private final long delay, size, offset;

  private ReadLog(String servers, String topic, long delay, long size, long offset) {
    this.servers = servers;
    this.topic = topic;
    this.delay = delay;
    this.size = size;
    this.offset = offset;
  }

  /** Times are in milliseconds. */
  public static ReadLog of(String servers, String topic, long delay, long size, long offset) {
    return new ReadLog(servers, topic, delay, size, offset);
  }

  @Override
  public PCollection<KV<byte[], byte[]>> expand(PBegin input) {
    long delay = this.delay, size = this.size, offset = this.offset; // the policy must not take this transform along
    return input.apply(
        KafkaIO.<byte[], byte[]>read()
            .withBootstrapServers(servers)
            .withTopic(topic)
            .withKeyDeserializer(ByteArrayDeserializer.class)
            .withValueDeserializer(ByteArrayDeserializer.class)
            .withConsumerConfigUpdates(
                Map.of(
                    "auto.offset.reset", "earliest",
                    "isolation.level", "read_committed",
                    "max.poll.records", 1 << 14,
                    "max.partition.fetch.bytes", 1 << 22))
            .withConsumerFactoryFn(settings -> new Batching(settings, size, offset))
            .withTimestampPolicyFactory((partition, before) -> new LogClock(delay, size, offset, before))
            .withoutMetadata());
  }

  private static class LogClock extends TimestampPolicy<byte[], byte[]> {
    private final long delay, size, offset;
    private Long newest;

    LogClock(long delay, long size, long offset, Optional<Instant> before) {
      this.delay = delay;
      this.size = size;
      this.offset = offset;
      before.filter(BoundedWindow.TIMESTAMP_MIN_VALUE::isBefore).ifPresent(mark -> newest = mark.getMillis() + delay);
    }

    @Override
    public Instant getTimestampForRecord(PartitionContext partition, KafkaRecord<byte[], byte[]> record) {
      long moment = record.getTimestamp();
      long end = Math.floorDiv(moment - offset, size) * size + offset + size;
      boolean late = newest != null && end <= newest - delay;
      newest = newest == null ? moment : Math.max(newest, moment);
      return late ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(moment);
    }

    @Override
    public Instant getWatermark(PartitionContext partition) {
      return newest == null ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(newest - delay);
    }
  }
}
