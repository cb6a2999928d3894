# SPDX-License-Identifier: Apache-2.0
"""A whole clean-up where staging and the output root are on S3."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.clean_up import clean_up
from shardbatch.core.archive import READER_GRACE
from shardbatch.landing import layout
from shardbatch.landing.area import StagingArea
from shardbatch.run.end_record import Ended, leave_end_record
from tests.contract.landing_backends import Bucket, make_bucket
from tests.support.aws import AwsServer
from tests.support.rig import Rig
from tests.support.verbs import batch, told


@pytest.fixture(scope="module")
def bucket(moto_server: AwsServer) -> Bucket:
    return make_bucket(moto_server, "clean-up")


def test_an_archive_goes_with_its_documents_uploads_and_unseen_starts_and_the_output_stays(
    bucket: Bucket, moto_server: AwsServer, tmp_path: Path, unique_name: str
) -> None:
    client = moto_server.client("s3")
    place = f"s3://{bucket.name}/{unique_name}"
    area = StagingArea(f"{place}/staging", bucket.filesystem)
    rig = Rig(tmp_path / "unused", options={"landing": area})

    def put(key: str) -> None:
        client.put_object(Bucket=bucket.name, Key=f"{unique_name}/{key}", Body=b"{}")

    def names(prefix: str) -> list[str]:
        found = client.list_objects_v2(Bucket=bucket.name, Prefix=f"{unique_name}/{prefix}").get("Contents", [])
        return [one["Key"].partition("/")[2] for one in found]

    def begin(start_id: str, attempt: int) -> None:
        put(f"out/{layout.output_folder(batch_id, start_id)}/part.parquet")
        works = f"staging/{layout.works_folder(rig.namespace, batch_id)}/transform"
        text = '{"start_id": "%s", "attempt": %d, "work": "transform", "outputs": ["%s/out"]}'
        for kind, name in (("begun", "begun.json"), ("done", "start.json")):
            key = f"{unique_name}/{works}/{kind}/{layout.start_name(attempt, start_id)}/{name}"
            client.put_object(Bucket=bucket.name, Key=key, Body=(text % (start_id, attempt, place)).encode())
        leave_end_record(area, rig.namespace, Ended(batch_id, attempt, "transform", attempt, "", f"t{attempt}", False))

    rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    first = rig.freeze("r1")
    batch_id = first.batch_id or ""
    begin("s1", 1)
    rig.commit("r1", first)
    again = rig.freeze("r1", batch_id)
    begin("s2", again.attempt)
    rig.commit("r1", again)
    rig.over("r1")
    row = rig.consumer().leases()[0]
    dead = f"{unique_name}/staging/etl/orders/slices/{row.shard_id}/5-t1-{'0a' * 8}/part-00000.parquet"
    client.create_multipart_upload(Bucket=bucket.name, Key=dead)

    def clean(**changes: Any) -> dict[str, int]:
        rig.time.ms += int((READER_GRACE + timedelta(days=1)).total_seconds() * 1000)
        found: Any = told(clean_up, rig, landing=area, clock=rig.time.clock(), liveness=rig.verdict, **changes)
        assert not [item for item in found if item.result == "left"], found
        return {item.kind: item.number for item in found}

    preview = clean(dry_run=True)
    assert clean() == preview == {"archive": 1, "slices": 2, "uploads": 1}
    assert batch(rig, batch_id).retired_ms is not None
    assert client.list_multipart_uploads(Bucket=bucket.name, Prefix=unique_name).get("Uploads", []) == []
    assert names("staging/etl/orders/slices") == []
    assert clean() == {"starts": 1, "documents": 1}
    assert names("staging/etl/orders") == []
    assert names("out/batch_id=") == [f"out/{layout.output_folder(batch_id, 's2')}/part.parquet"]
    assert [start_id for start_id, _ in area.cleaner.decisions(f"{place}/out")[batch_id].starts] == ["s2"]
