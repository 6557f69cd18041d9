"""Commands for people who work on fwonline: a Kafka broker, benchmarks, the figures of the papers."""
