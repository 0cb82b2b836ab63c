import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark;
import org.apache.beam.sdk.io.kafka.KafkaCheckpointMark.PartitionMark;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.values.KV;
import org.apache.kafka.common.TopicPartition;
import org.joda.time.Instant;

/**
 * The values and keys of a topic's records, from readers whose checkpoints hold the watermark of all that was read.
 * Kafka's hold the one that was asked for last: a clock that goes on from there has forgotten records, and would take as
 * on time what is late.
 *
 * <p>Partitions are dealt out to the parts of the source when the job is launched. The first part also reads those that
 * are added later, from their beginning, whenever it starts; while it runs, {@link AllPartitions} watches for them.
 *
 * <p>A step of its own that takes values and keys from records would have each of them encoded twice more. Values come
 * first: of a pair only the first is encoded with its length, and the other is read into arrays that grow.
 */
class LogSource extends UnboundedSource<KV<byte[], byte[]>, KafkaCheckpointMark> {
  private static final long serialVersionUID = 1; // checkpoints hold the parts

  private final Log log;
  private final int part, parts, partitions;

  LogSource(Log log) {
    this(log, 0, 1, 0);
  }

  private LogSource(Log log, int part, int parts, int partitions) {
    this.log = log;
    this.part = part;
    this.parts = parts;
    this.partitions = partitions;
  }

  @Override
  public List<LogSource> split(int number, PipelineOptions options) {
    try (var all = new AllPartitions(log)) {
      int most = Math.min(number, all.known());
      return IntStream.range(0, most)
          .mapToObj(each -> new LogSource(log, each, most, all.known()))
          .collect(Collectors.toList());
    }
  }

  @Override
  public UnboundedReader<KV<byte[], byte[]>> createReader(PipelineOptions options, KafkaCheckpointMark mark)
      throws IOException {
    var all = new AllPartitions(log);
    try {
      var marks = new ArrayList<PartitionMark>();
      if (mark != null) {
        marks.addAll(mark.getPartitions());
        all.check(marks);
      } else {
        marks.addAll(all.unread(IntStream.range(0, partitions).filter(each -> each % parts == part)));
      }
      if (part == 0) {
        int read = marks.stream().mapToInt(PartitionMark::getPartition).max().orElse(-1) + 1;
        marks.addAll(all.unread(IntStream.range(Math.max(read, partitions), all.known())));
      }
      var read = marks.stream().map(one -> new TopicPartition(one.getTopic(), one.getPartition()));
      var source = log.source(read.collect(Collectors.toList()));
      return new Reader(source.createReader(options, new KafkaCheckpointMark(marks, Optional.empty())), all);
    } catch (IOException | RuntimeException error) {
      all.close();
      throw error;
    }
  }

  @Override
  public Coder<KafkaCheckpointMark> getCheckpointMarkCoder() {
    return log.source(List.of(new TopicPartition(log.topic(), 0))).getCheckpointMarkCoder();
  }

  @Override
  public Coder<KV<byte[], byte[]>> getOutputCoder() {
    return KvCoder.of(Log.BYTES, Log.BYTES);
  }

  private class Reader extends UnboundedReader<KV<byte[], byte[]>> {
    private final UnboundedReader<KafkaRecord<byte[], byte[]>> reader;
    private final AllPartitions all;

    Reader(UnboundedReader<KafkaRecord<byte[], byte[]>> reader, AllPartitions all) {
      this.reader = reader;
      this.all = all;
    }

    @Override
    public boolean start() throws IOException {
      return reader.start();
    }

    @Override
    public boolean advance() throws IOException {
      return reader.advance();
    }

    @Override
    public KV<byte[], byte[]> getCurrent() throws NoSuchElementException {
      var record = reader.getCurrent().getKV();
      return KV.of(record.getValue(), record.getKey());
    }

    @Override
    public Instant getCurrentTimestamp() throws NoSuchElementException {
      return reader.getCurrentTimestamp();
    }

    @Override
    public Instant getWatermark() {
      Instant found = reader.getWatermark();
      return part == 0 ? all.pass(found) : found;
    }

    @Override
    public CheckpointMark getCheckpointMark() {
      reader.getWatermark();
      return reader.getCheckpointMark();
    }

    @Override
    public long getSplitBacklogBytes() {
      return reader.getSplitBacklogBytes();
    }

    @Override
    public UnboundedSource<KV<byte[], byte[]>, ?> getCurrentSource() {
      return LogSource.this;
    }

    @Override
    public void close() throws IOException {
      all.close();
      reader.close();
    }
  }
}
