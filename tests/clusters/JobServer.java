import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.runners.flink.FlinkJobInvoker;
import org.apache.beam.runners.flink.FlinkJobServerDriver;
import org.apache.beam.runners.jobsubmission.JobServerDriver;
import org.apache.beam.sdk.fn.server.GrpcContextHeaderAccessorProvider;
import org.apache.beam.sdk.fn.server.ServerFactory;
import org.apache.beam.sdk.io.FileSystems;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p60p1.io.grpc.netty.NettyServerBuilder;

/**
 * Beam's job server for Flink, which takes jobs from this machine only: Beam's own listens on every address, whatever
 * its --job-host. Nor does it upload its 150 MB of jars with each job, as the task managers have them.
 */
public class JobServer extends JobServerDriver {
  public static void main(String[] arguments) {
    System.setProperty("java.class.path", ""); // it sends what it finds here, and needs it no more itself
    FileSystems.setDefaultPipelineOptions(PipelineOptionsFactory.create()); // registers the file systems
    var configuration = FlinkJobServerDriver.parseArgs(arguments);
    new JobServer(configuration).run();
  }

  private JobServer(FlinkJobServerDriver.FlinkServerConfiguration configuration) {
    super(configuration, new Loopback(), new Loopback(), () -> FlinkJobInvoker.create(configuration));
  }

  private static class Loopback extends ServerFactory {
    @Override
    public Server create(List<BindableService> services, ApiServiceDescriptor place) throws IOException {
      return listen(services, Integer.parseInt(place.getUrl().split(":")[1]));
    }

    @Override
    public Server allocateAddressAndCreate(List<BindableService> services, ApiServiceDescriptor.Builder place)
        throws IOException {
      Server server = listen(services, 0);
      place.setUrl("127.0.0.1:" + server.getPort());
      return server;
    }

    private static Server listen(List<BindableService> services, int port) throws IOException {
      var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
      var builder = NettyServerBuilder.forAddress(address).maxInboundMessageSize(Integer.MAX_VALUE);
      for (BindableService service : services) {
        // tells the services which worker it is that calls
        builder.addService(ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
      }
      return builder.build().start();
    }
  }
}
