"""The process that test_kafka_crashes.py kills: it adds up ids and saves sum, count and position in one atomic file."""

import ast
import json
import os
import sys

from fwonline.stream import KafkaSource


def main(topic: str, bootstrap: str, client: str, path: str) -> None:
    """Learn until the process is killed."""
    state = {"n": 0, "sum": 0, "position": {}}
    if os.path.exists(path):
        with open(path) as file:
            state = json.load(file)
    with KafkaSource(topic, bootstrap, "id", client=ast.literal_eval(client)) as source:
        source.seek(state["position"])
        for sample in source:
            state = {"n": state["n"] + 1, "sum": state["sum"] + sample.y, "position": source.position}
            with open(path + ".new", "w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
