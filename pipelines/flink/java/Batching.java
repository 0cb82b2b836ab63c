import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * A consumer that hands out many small records as one, which Beam and its workers then pay for once. Its value is theirs
 * joined, and its key their lengths, four bytes each, the lowest first; a record that stays alone has no key, unless it has a
 * key and no content: such a record is no heartbeat, and its key is its length, 0.
 *
 * <p>Records that are joined follow each other in one partition. Their timestamps, less the delay, lie in one window, and so
 * does that of the record before them: none of them lets another window end, so their rows are judged alike, whichever
 * are joined. The offset and the timestamp are the largest of theirs. Records without content, heartbeats, stay alone.
 */
class Batching extends KafkaConsumer<byte[], byte[]> {
  private static final int MOST_BYTES = 1 << 20, MOST_RECORDS = 1 << 14;

  private final Log log;
  private final Map<TopicPartition, Long> windows = new HashMap<>(); // of the last records that were read

  Batching(Map<String, Object> settings, Log log) {
    super(settings);
    this.log = log;
  }

  @Override
  public ConsumerRecords<byte[], byte[]> poll(Duration patience) {
    return joined(super.poll(patience));
  }

  @Override
  @SuppressWarnings("deprecation") // what KafkaIO calls
  public ConsumerRecords<byte[], byte[]> poll(long patience) {
    return joined(super.poll(patience));
  }

  private ConsumerRecords<byte[], byte[]> joined(ConsumerRecords<byte[], byte[]> found) {
    var joined = new LinkedHashMap<TopicPartition, List<ConsumerRecord<byte[], byte[]>>>();
    for (TopicPartition partition : found.partitions()) {
      joined.put(partition, joined(partition, found.records(partition)));
    }
    return new ConsumerRecords<>(joined);
  }

  private List<ConsumerRecord<byte[], byte[]>> joined(
      TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) {
    var out = new ArrayList<ConsumerRecord<byte[], byte[]>>();
    for (int first = 0, next; first < records.size(); first = next) {
      next = first + 1;
      long window = window(records.get(first)), bytes = length(records.get(first));
      Long before = windows.put(partition, window);
      boolean alone = bytes == 0 || before == null || before != window;
      while (!alone && next < records.size() && next - first < MOST_RECORDS) {
        int length = length(records.get(next));
        if (length == 0 || bytes + length > MOST_BYTES || window(records.get(next)) != window) {
          break;
        }
        bytes += length;
        next++;
      }
      out.add(one(records.subList(first, next), (int) bytes));
    }
    return out;
  }

  private static ConsumerRecord<byte[], byte[]> one(List<ConsumerRecord<byte[], byte[]>> group, int bytes) {
    var last = group.get(group.size() - 1);
    if (group.size() == 1) {
      byte[] key = last.key() != null && length(last) == 0 ? new byte[4] : null;
      return record(last, last.timestamp(), key, last.value());
    }
    ByteBuffer lengths = ByteBuffer.allocate(4 * group.size()).order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer values = ByteBuffer.allocate(bytes);
    long newest = Long.MIN_VALUE;
    for (var record : group) {
      lengths.putInt(record.value().length);
      values.put(record.value());
      newest = Math.max(newest, record.timestamp());
    }
    return record(last, newest, lengths.array(), values.array());
  }

  private static ConsumerRecord<byte[], byte[]> record(
      ConsumerRecord<byte[], byte[]> like, long timestamp, byte[] key, byte[] value) {
    int keySize = key == null ? -1 : key.length, valueSize = value == null ? -1 : value.length;
    return new ConsumerRecord<>(
        like.topic(), like.partition(), like.offset(), timestamp, TimestampType.CREATE_TIME,
        keySize, valueSize, key, value, new RecordHeaders(), Optional.empty());
  }

  private long window(ConsumerRecord<byte[], byte[]> record) {
    return log.windowOfWatermark(record.timestamp());
  }

  private static int length(ConsumerRecord<byte[], byte[]> record) {
    return record.value() == null ? 0 : record.value().length;
  }
}
