"""A real Flink cluster on this machine's loopback, for the demo and the tests."""
