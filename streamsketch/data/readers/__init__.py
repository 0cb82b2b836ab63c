"""One reader a file format: batches of Arrow columns from files of events."""
