"""What users pass in as integers: columns and tables, keys, values on a grid, and readers of files."""
