"""What other implementations check themselves against."""
