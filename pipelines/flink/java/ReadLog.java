import org.apache.beam.sdk.io.Read;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PBegin;
import org.apache.beam.sdk.values.PCollection;

/**
 * Reads a Kafka topic with watermarks and lateness from each partition's own log: the watermark is the newest timestamp
 * less the allowed delay, and a record is late, which the earliest of all timestamps marks, if its window was over by
 * then. So both are functions of the log, and a replay decides alike; no clock has a say. A partition without records
 * holds every window back: producers send heartbeats, which are records without content. Where these alone move the
 * watermark, no other record decides which records are late, or when windows end.
 */
public class ReadLog extends PTransform<PBegin, PCollection<KV<byte[], byte[]>>> {
  private final Log log;

  private ReadLog(Log log) {
    this.log = log;
  }

  /**
   * Times are in milliseconds. Offsets are committed to the group once a checkpoint holds them, for monitors alone.
   * Settings of TLS and SASL are in a file of this name on each machine; empty for none.
   */
  public static ReadLog topic(
      String servers, String topic, String group, String settings, long delay, long size, long offset,
      boolean beatsAlone) {
    return new ReadLog(new Log(servers, topic, group, settings, delay, size, offset, beatsAlone));
  }

  @Override
  public PCollection<KV<byte[], byte[]>> expand(PBegin input) {
    return input.apply(Read.from(source()));
  }

  /** The source of the topic's values, and the lengths of what is joined in them. */
  public UnboundedSource<KV<byte[], byte[]>, KafkaCheckpointMark> source() {
    return new LogSource(log);
  }
}
