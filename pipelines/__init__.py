"""Apache Beam pipelines and demonstrations, to run and to read."""

import logging

# Beam says on import that Google's BigQuery client is missing; these jobs do not use it.
logging.getLogger().addFilter(lambda record: "apitools" not in record.getMessage())
