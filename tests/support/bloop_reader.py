# SPDX-License-Identifier: Apache-2.0
"""Bloop's stream of one table, steered by lines of JSON; `bloop_process.py` starts it with a Python that has Bloop.

Each line on standard input is `{"do": NAME, ...}`. Each is answered by one line: `{"answer": ..., "logged": [...]}`,
or `{"error": CLASS, "text": ..., "logged": [...]}` if Bloop raises. `logged` is what Bloop logged meanwhile.
"""

import datetime
import json
import logging
import sys
import time
from typing import ClassVar

import bloop
import boto3
from bloop.stream import Stream
from botocore.config import Config

INCLUDED = {
    "KEYS_ONLY": {"keys"},
    "NEW_IMAGE": {"new"},
    "OLD_IMAGE": {"old"},
    "NEW_AND_OLD_IMAGES": {"new", "old"},
}
#: Types of columns, by the names that the other side uses.
TYPES = {
    "text": bloop.String,
    "number": bloop.Number,
    "boolean": bloop.Boolean,
    "texts": bloop.Set(bloop.String),
    "map": bloop.DynamicMap,
    "list": bloop.DynamicList,
}


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.kept = []

    def emit(self, record):
        self.kept.append(f"{record.levelname}: {record.getMessage()}")

    def taken(self):
        kept, self.kept = self.kept, []
        return kept


def opener(session, endpoint, table, view, columns):
    """What makes a new stream of a table's latest stream, at no position yet."""

    class Meta:
        table_name = table
        stream: ClassVar = {"include": INCLUDED[view]}

    mapped = {name: bloop.Column(TYPES[kind], hash_key=name == "id") for name, kind in columns.items()}
    Item = type("Item", (bloop.BaseModel,), {"Meta": Meta, **mapped})
    settings = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
    clients = [session.client(name, endpoint_url=endpoint, config=settings) for name in ("dynamodb", "dynamodbstreams")]
    engine = bloop.Engine(dynamodb=clients[0], dynamodbstreams=clients[1])
    engine.bind(Item, skip_table_setup=True)  # it asks for more than the stream: backups, time to live
    Item.Meta.stream["arn"] = clients[0].describe_table(TableName=table)["Table"]["LatestStreamArn"]
    return lambda: Stream(model=Item, engine=engine)


def shown(record):
    """A record as JSON: its place and what the item is and was."""
    if record is None:
        return None
    meta = record["meta"]
    images = {
        name: None if record[name] is None else {"id": record[name].id, "v": getattr(record[name], "v", None)}
        for name in ("key", "new", "old")
    }
    return {
        **images,
        "event": meta["event"]["type"],
        "seconds": meta["created_at"].timestamp(),
        "number": meta["sequence_number"],
    }


class Reader:
    """One stream at a time."""

    def __init__(self):
        self.session = boto3.session.Session("123456789012", "not-a-secret", region_name=sys.argv[1])
        self.stream = self.opened = None

    def open(self, endpoint, table, view, columns):
        self.opened = opener(self.session, endpoint, table, view, columns)
        self.stream = self.opened()

    def move_to(self, position):
        self.stream.move_to(position)

    def move_to_time(self, seconds):
        self.stream.move_to(datetime.datetime.fromtimestamp(seconds, datetime.UTC))

    def resume(self, token):
        """As a process does that begins anew with a token."""
        self.stream = self.opened()
        self.stream.move_to(token)

    def next(self):
        return shown(next(self.stream))

    def drain(self, nothing):
        """Records until `next` has had none so often in a row."""
        found, empty = [], 0
        while empty < nothing:
            record = self.next()
            empty = 0 if record else empty + 1
            found += [record] if record else []
        return found

    def count(self, records):
        """Take so many records and keep none of them; the seconds of CPU and of the clock that it took."""
        cpu, clock, nothing = time.process_time(), time.perf_counter(), 0
        while records:
            found = next(self.stream)
            nothing = 0 if found else nothing + 1
            records -= 1 if found else 0
            if nothing > 1000:
                raise RuntimeError(f"{records} records are missing")
        return time.process_time() - cpu, time.perf_counter() - clock

    def token(self):
        return self.stream.token

    def heartbeat(self):
        self.stream.heartbeat()

    def buffered(self):
        return len(self.stream.coordinator.buffer)


def main():
    lines = Lines()
    logger = logging.getLogger("bloop.stream")
    logger.setLevel(logging.INFO)
    logger.addHandler(lines)
    reader = Reader()
    print(json.dumps({"answer": bloop.__version__, "logged": lines.taken()}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = {"answer": getattr(reader, asked.pop("do"))(**asked)}
        except Exception as error:  # noqa: BLE001 - the other side says which it expects
            said = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps({**said, "logged": lines.taken()}), flush=True)


if __name__ == "__main__":
    main()
