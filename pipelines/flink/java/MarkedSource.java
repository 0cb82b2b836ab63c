import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.NullableCoder;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.values.KV;
import org.joda.time.Instant;

/**
 * The values and keys of Kafka's records, from a source whose checkpoints hold the watermark of all that was read.
 * Kafka's hold the one that was asked for last: a clock that goes on from there has forgotten records, and would take as
 * on time what is late.
 *
 * <p>A step of its own that takes these from records would have each of them encoded twice more. Values come first: of a
 * pair only the first is encoded with its length, and the other is read into arrays that grow.
 */
class MarkedSource<M extends UnboundedSource.CheckpointMark> extends UnboundedSource<KV<byte[], byte[]>, M> {
  static final Coder<byte[]> BYTES = NullableCoder.of(ByteArrayCoder.of());

  private final UnboundedSource<KafkaRecord<byte[], byte[]>, M> source;

  MarkedSource(UnboundedSource<KafkaRecord<byte[], byte[]>, M> source) {
    this.source = source;
  }

  @Override
  public List<MarkedSource<M>> split(int number, PipelineOptions options) throws Exception {
    var parts = new ArrayList<MarkedSource<M>>();
    for (var part : source.split(number, options)) {
      parts.add(new MarkedSource<M>(part));
    }
    return parts;
  }

  @Override
  public UnboundedReader<KV<byte[], byte[]>> createReader(PipelineOptions options, M mark) throws IOException {
    return new Reader(source.createReader(options, mark));
  }

  @Override
  public Coder<M> getCheckpointMarkCoder() {
    return source.getCheckpointMarkCoder();
  }

  @Override
  public Coder<KV<byte[], byte[]>> getOutputCoder() {
    return KvCoder.of(BYTES, BYTES);
  }

  private class Reader extends UnboundedReader<KV<byte[], byte[]>> {
    private final UnboundedReader<KafkaRecord<byte[], byte[]>> reader;

    Reader(UnboundedReader<KafkaRecord<byte[], byte[]>> reader) {
      this.reader = reader;
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
      return reader.getWatermark();
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
      return MarkedSource.this;
    }

    @Override
    public void close() throws IOException {
      reader.close();
    }
  }
}
