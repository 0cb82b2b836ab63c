"""Python workers for Flink's task managers: Beam's worker pool, on loopback only.

``python -m tests.clusters.workers PORT`` differs from Beam's own ``worker_pool_main`` in three things. It listens on
127.0.0.1 instead of every address. Workers are forked from a process that has imported Beam and streamsketch already.
And a request to stop a worker does nothing: each task manager calls its first worker ``1-1``, so that one which is done
would stop the worker of another. A worker ends by itself when its task manager hangs up.
"""

import logging
import multiprocessing
import sys
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.utils import thread_pool_executor

_PRELOADED = ["tests.clusters.workers", "streamsketch.beam"]


def work(control: str, worker_id: str) -> None:
    """Work for the task manager that listens at ``control`` until it hangs up."""
    logging.getLogger().setLevel(logging.INFO)
    SdkHarness(control, worker_id=worker_id).run()


def serve(port: int) -> None:
    """Start a worker for each that asks, until this process is killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)

    class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
        def StartWorker(self, request: Any, _: Any) -> Any:  # noqa: N802 - Beam's name
            context.Process(target=work, args=(request.control_endpoint.url, request.worker_id), daemon=True).start()
            return beam_fn_api_pb2.StartWorkerResponse()

        def StopWorker(self, _request: Any, _: Any) -> Any:  # noqa: N802 - Beam's name
            return beam_fn_api_pb2.StopWorkerResponse()

    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(Pool(), server)
    context.Process(target=int, daemon=True).start()  # the preloading starts now, not with the first job
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
