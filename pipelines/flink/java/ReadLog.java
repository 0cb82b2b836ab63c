import org.apache.beam.sdk.io.Read;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PBegin;
import org.apache.beam.sdk.values.PCollection;

/**
 * Reads a Kafka topic with watermarks from each partition's own log: the watermark is the newest timestamp less the
 * allowed delay. Each record has the watermark before it as Beam's timestamp, by which the rows in it are late or not.
 * So both are functions of the log, and a replay decides alike; no clock has a say. A partition without records holds
 * every window back: producers send heartbeats, which are records without content. Where these alone move the watermark,
 * no other record decides which rows are late, or when windows end. A record that is too far ahead moves nothing: its
 * timestamp less the delay is more than {@code most} windows after the watermark's, or after the {@code first} window.
 */
public class ReadLog extends PTransform<PBegin, PCollection<KV<byte[], byte[]>>> {
  private final Log log;

  private ReadLog(Log log) {
    this.log = log;
  }

  /**
   * Times are in milliseconds, the last two are numbers of windows; the first record may be at any time with the least.
   * Offsets are committed to the group once a checkpoint holds them, for monitors alone. Settings of TLS and SASL are in
   * a file of this name on each machine; empty for none.
   */
  public static ReadLog topic(
      String servers, String topic, String group, String settings, long delay, long size, long offset,
      boolean beatsAlone, long most, long first) {
    return new ReadLog(new Log(servers, topic, group, settings, delay, size, offset, beatsAlone, most, first));
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
