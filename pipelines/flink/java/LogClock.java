import java.util.Optional;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.io.kafka.TimestampPolicy;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.joda.time.Instant;

/** The watermark of one partition, by its own log, which its records have as timestamps: see {@link ReadLog}. */
class LogClock extends TimestampPolicy<byte[], byte[]> {
  private static final long EARLY = 1; // ms: a runner ends a window at its last one, when rows in it are still on time

  private final Log log;
  private final long low, high;
  private Long newest;

  LogClock(Log log, Optional<Instant> before) {
    this.log = log;
    // beyond these Beam cannot hold a record's window
    this.low = BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis() + log.size() + log.delay();
    this.high = GlobalWindow.INSTANCE.maxTimestamp().getMillis() - log.size() - log.delay();
    before
        .filter(BoundedWindow.TIMESTAMP_MIN_VALUE::isBefore)
        .ifPresent(mark -> newest = mark.getMillis() + EARLY + log.delay());
  }

  @Override
  public Instant getTimestampForRecord(PartitionContext partition, KafkaRecord<byte[], byte[]> record) {
    long moment = record.getTimestamp();
    byte[] content = record.getKV().getValue();
    // with a key it is a deletion, which is someone's: streamsketch.intake.is_heartbeat is the same rule
    boolean isBeat = record.getKV().getKey() == null && (content == null || content.length == 0);
    Instant before = watermark();
    boolean moves = (isBeat || !log.beatsAlone()) && low <= moment && moment <= high;
    if (moves && log.windowOfWatermark(moment) <= log.reach(newest)) {
      newest = newest == null ? moment : Math.max(newest, moment);
    }
    return before;
  }

  @Override
  public Instant getWatermark(PartitionContext partition) {
    return newest == null ? watermark() : watermark().minus(EARLY);
  }

  private Instant watermark() {
    return newest == null ? BoundedWindow.TIMESTAMP_MIN_VALUE : new Instant(newest - log.delay());
  }
}
