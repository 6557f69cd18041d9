"""Long trials of what the library promises about Kafka: `python -m tools.soak --help`."""
