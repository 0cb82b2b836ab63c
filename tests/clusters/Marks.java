import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;

/** Reads some records of a topic, makes a checkpoint, goes on from it, and says whether the next record is late. */
public class Marks {
  public static void main(String[] arguments) throws Exception {
    var options = PipelineOptionsFactory.create();
    var source = ReadLog.topic(arguments[0], arguments[1], "marks", "", 5000, 60_000, 0, true).source().split(1, options).get(0);
    var reader = source.createReader(options, null);
    int read = reader.start() ? 1 : 0;
    while (read < Integer.parseInt(arguments[2])) {
      read += reader.advance() ? 1 : 0;
    }
    var mark = (org.apache.beam.sdk.io.kafka.KafkaCheckpointMark) reader.getCheckpointMark();
    reader.close();
    var restored = source.createReader(options, mark);
    boolean isThere = restored.start();
    while (!isThere) {
      isThere = restored.advance();
    }
    boolean isLate = restored.getCurrentTimestamp().equals(BoundedWindow.TIMESTAMP_MIN_VALUE);
    System.out.println(isLate ? "late" : "on time");
    restored.close();
  }
}
