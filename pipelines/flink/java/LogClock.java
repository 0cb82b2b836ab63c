import java.util.Optional;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.io.kafka.TimestampPolicy;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.joda.time.Instant;

/** The watermark of one partition, and which of its records are late, by its own log: see {@link ReadLog}. */
class LogClock extends TimestampPolicy<byte[], byte[]> {
  private final Log log;
  private final long low, high;
  private Long newest;

  LogClock(Log log, Optional<Instant> before) {
    this.log = log;
    // beyond these Beam cannot hold a record's window
    this.low = BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis() + log.size() + log.delay();
    this.high = GlobalWindow.INSTANCE.maxTimestamp().getMillis() - log.size() - log.delay();
    before.filter(BoundedWindow.TIMESTAMP_MIN_VALUE::isBefore).ifPresent(mark -> newest = mark.getMillis() + log.delay());
  }

  @Override
  public Instant getTimestampForRecord(PartitionContext partition, KafkaRecord<byte[], byte[]> record) {
    long moment = record.getTimestamp();
    if (moment < low || moment > high) {
      return BoundedWindow.TIMESTAMP_MIN_VALUE;
    }
    byte[] content = record.getKV().getValue();
    boolean isBeat = content == null || content.length == 0;
    boolean late = newest != null && log.window(moment) < log.window(newest - log.delay());
    if (isBeat || !log.beatsAlone()) {
      newest = newest == null ? moment : Math.max(newest, moment);
    }
    return late ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(moment);
  }

  @Override
  public Instant getWatermark(PartitionContext partition) {
    return newest == null ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(newest - log.delay());
  }
}
