"""What a release promises, to whom, and what it does not, in words a person can check."""
