"""Fixtures that many tests share."""

pytest_plugins = ["kafka_fixtures"]
