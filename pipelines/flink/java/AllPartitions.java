import java.io.Closeable;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark.PartitionMark;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.joda.time.Instant;

/**
 * Holds a watermark back at the end of each window until a broker has said, after the window's last record was read,
 * that the topic has no partition beside those that are read. So no window ends without the records of a partition that
 * was added while the job runs.
 */
class AllPartitions implements Closeable {
  private final Log log;
  private final Admin admin;
  private final int known;
  private Instant passed = BoundedWindow.TIMESTAMP_MIN_VALUE, next;
  private KafkaFuture<TopicDescription> answer;

  /** The topic is asked how many partitions it has: these are to be read. */
  AllPartitions(Log log) {
    this.log = log;
    this.admin = log.admin();
    try {
      this.known = count(ask());
    } catch (RuntimeException error) {
      close();
      throw error;
    }
  }

  /** How many partitions there were at first. */
  int known() {
    return known;
  }

  /** Where partitions are read that no checkpoint has: from their beginning, whatever their group has committed. */
  List<PartitionMark> unread(IntStream partitions) {
    var topics = partitions.mapToObj(each -> new TopicPartition(log.topic(), each)).collect(Collectors.toList());
    var starts = admin.listOffsets(topics.stream().collect(Collectors.toMap(one -> one, one -> OffsetSpec.earliest())));
    long never = BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis();
    return topics.stream()
        .map(one -> new PartitionMark(log.topic(), one.partition(), answer(starts.partitionResult(one)).offset(), never))
        .collect(Collectors.toList());
  }

  /** Fails if a partition no longer has the records after its mark, or no longer reaches it. */
  void check(List<PartitionMark> marks) {
    var topics = marks.stream().map(one -> new TopicPartition(one.getTopic(), one.getPartition())).collect(Collectors.toList());
    var firsts = admin.listOffsets(topics.stream().collect(Collectors.toMap(one -> one, one -> OffsetSpec.earliest())));
    var ends = admin.listOffsets(topics.stream().collect(Collectors.toMap(one -> one, one -> OffsetSpec.latest())));
    for (var mark : marks) {
      var place = new TopicPartition(mark.getTopic(), mark.getPartition());
      long next = mark.getNextOffset();
      long first = answer(firsts.partitionResult(place)).offset(), end = answer(ends.partitionResult(place)).offset();
      String where = "partition " + mark.getPartition() + " of " + mark.getTopic();
      if (next < first) {
        throw new IllegalStateException(
            where + " begins at offset " + first + ", but " + next + " is to be read next: retention removed records "
                + "before they were read");
      }
      if (end < next) {
        throw new IllegalStateException(
            where + " ends at offset " + end + ", but was read to " + next + ": the end of its log was lost, or it is "
                + "another topic");
      }
    }
  }

  /** Returns how far the watermark may go now; fails if there are other partitions than at first. */
  Instant pass(Instant watermark) {
    if (answer != null && answer.isDone()) {
      int found = count(answer);
      if (found != known) {
        throw new IllegalStateException(
            "the topic " + log.topic() + " has " + found + " partitions and had " + known + " when the job started; "
                + "started again from its last checkpoint, it reads those that were added, and no window has ended "
                + "without them");
      }
      answer = null;
      passed = next;
    }
    if (ended(watermark) <= ended(passed)) {
      passed = watermark.isAfter(passed) ? watermark : passed;
    } else if (answer == null) {
      next = watermark;
      answer = ask();
    }
    return passed;
  }

  @Override
  public void close() {
    admin.close(Duration.ZERO);
  }

  /** The first window that a watermark has not ended: a runner ends one a millisecond early. */
  private long ended(Instant watermark) {
    return log.window(watermark.getMillis() + 1);
  }

  private KafkaFuture<TopicDescription> ask() {
    return admin.describeTopics(List.of(log.topic())).topicNameValues().get(log.topic());
  }

  private int count(KafkaFuture<TopicDescription> answer) {
    return answer(answer).partitions().size();
  }

  private <T> T answer(KafkaFuture<T> answer) {
    try {
      return answer.get();
    } catch (ExecutionException error) {
      throw new IllegalStateException("Kafka does not say which partitions " + log.topic() + " has", error.getCause());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(error);
    }
  }
}
