import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.options.PipelineOptions;
import org.joda.time.Instant;

/**
 * A source whose checkpoints hold the watermark of all that was read. Kafka's hold the one that was asked for last: a
 * clock that goes on from there has forgotten records, and would take as on time what is late.
 */
class MarkedSource<T, M extends UnboundedSource.CheckpointMark> extends UnboundedSource<T, M> {
  private final UnboundedSource<T, M> source;

  MarkedSource(UnboundedSource<T, M> source) {
    this.source = source;
  }

  @Override
  public List<MarkedSource<T, M>> split(int number, PipelineOptions options) throws Exception {
    var parts = new ArrayList<MarkedSource<T, M>>();
    for (var part : source.split(number, options)) {
      parts.add(new MarkedSource<T, M>(part));
    }
    return parts;
  }

  @Override
  public UnboundedReader<T> createReader(PipelineOptions options, M mark) throws IOException {
    return new Reader(source.createReader(options, mark));
  }

  @Override
  public Coder<M> getCheckpointMarkCoder() {
    return source.getCheckpointMarkCoder();
  }

  @Override
  public Coder<T> getOutputCoder() {
    return source.getOutputCoder();
  }

  private class Reader extends UnboundedReader<T> {
    private final UnboundedReader<T> reader;

    Reader(UnboundedReader<T> reader) {
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
    public T getCurrent() throws NoSuchElementException {
      return reader.getCurrent();
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
    public UnboundedSource<T, ?> getCurrentSource() {
      return MarkedSource.this;
    }

    @Override
    public void close() throws IOException {
      reader.close();
    }
  }
}
