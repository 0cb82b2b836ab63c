"""A page that reports what a person's phone knows, and a server that adds the reports up."""
