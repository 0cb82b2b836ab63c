"""What releases a window once, on any engine: names of draws, keys, ids, charges, versions, slots, sinks and alarms."""
