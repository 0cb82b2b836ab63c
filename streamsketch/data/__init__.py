"""What users pass in becomes integers: columns and tables, keys, values on a grid, and files of events."""
