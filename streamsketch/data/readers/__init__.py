"""One reader per file format: batches of Arrow columns from files of events."""
