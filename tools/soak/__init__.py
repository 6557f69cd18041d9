"""Long trials of what the library promises about Kafka and files: `python -m tools.soak --help`."""
