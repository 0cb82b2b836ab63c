import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.beam.runners.fnexecution.artifact.ArtifactRetrievalService;
import org.apache.beam.sdk.expansion.service.ExpansionService;
import org.apache.beam.sdk.expansion.service.ExpansionServiceOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.netty.NettyServerBuilder;

/** Beam's expansion service, for this machine only: its own main listens on every address. */
public class Expansion {
  public static void main(String[] arguments) throws Exception {
    // what it finds here it sends along with each job; the task managers have it all, so one jar is enough
    var ours = Expansion.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    System.setProperty("java.class.path", ours);
    PipelineOptionsFactory.register(ExpansionServiceOptions.class);
    var options =
        PipelineOptionsFactory.fromArgs(
                "--javaClassLookupAllowlistFile=*",
                "--defaultEnvironmentType=EMBEDDED", // Java steps run within the task managers
                "--experiments=use_deprecated_read") // the newer way of reading has no watermarks of one's own
            .create();
    var service = new ExpansionService(options);
    var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0]));
    NettyServerBuilder.forAddress(address).addService(service).addService(new ArtifactRetrievalService()).build().start().awaitTermination();
  }
}
