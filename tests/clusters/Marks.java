import org.apache.beam.sdk.options.PipelineOptionsFactory;

/**
 * Reads some records of a topic, makes a checkpoint, goes on from it, and prints the watermark before the next one. With
 * a fifth argument it says when the checkpoint is made, and waits for a line before it goes on.
 */
public class Marks {
  public static void main(String[] arguments) throws Exception {
    var options = PipelineOptionsFactory.create();
    String settings = arguments.length > 3 ? arguments[3] : "";
    long first = Long.MIN_VALUE;
    var read = ReadLog.topic(arguments[0], arguments[1], "marks", settings, 5000, 60_000, 0, true, 10_000, first);
    var source = read.source().split(1, options).get(0);
    var reader = source.createReader(options, null);
    int count = reader.start() ? 1 : 0;
    while (count < Integer.parseInt(arguments[2])) {
      count += reader.advance() ? 1 : 0;
    }
    var mark = (org.apache.beam.sdk.io.kafka.KafkaCheckpointMark) reader.getCheckpointMark();
    reader.close();
    if (arguments.length > 4) {
      System.out.println("made");
      System.in.read();
    }
    var restored = source.createReader(options, mark);
    boolean isThere = restored.start();
    while (!isThere) {
      isThere = restored.advance();
    }
    System.out.println(restored.getCurrentTimestamp().getMillis());
    restored.close();
  }
}
