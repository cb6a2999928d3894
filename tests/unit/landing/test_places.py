# SPDX-License-Identifier: Apache-2.0
"""One text for every spelling of an output root, and the path that Hadoop makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.landing.location import Location, hadoop_form, place

SPELLINGS = {
    "file:///x/out": [
        "/x/out", "/x/out/", "/x//out", "/x/./out", "/x/out/.", "/x/y/../out", "file:/x/out", "file:///x/out/",
        "file:////x//out", "file://localhost/x/out", "FILE:/x/out", "local:///x/out",
    ],
    "file:///": ["/", "//", "file:/", "file:///", "/x/.."],
    "s3://lake/out": [
        "s3://lake/out", "s3a://lake/out", "s3n://lake/out", "S3://lake/out", "s3a://lake//out/", "s3://lake/./out//",
    ],
    "s3://lake/out/a b[prod]%20": ["s3://lake/out/a b[prod]%20/"],
    "s3://lake": ["s3://lake", "s3a://lake/", "s3a://lake//"],
    "hdfs://nn/x/out": ["hdfs://nn/x/out", "hdfs://NN/x/out/", "hdfs://nn:8020/x//out"],
    "hdfs://nn:9000/x/out": ["hdfs://nn:9000/x/out"],
    "hdfs:///x/out": ["hdfs:///x/out", "hdfs:/x/out"],
    "viewfs://cluster/x": ["viewfs://cluster/x", "viewfs://Cluster/x/"],
    "gs://lake/out": ["gs://lake/out", "gcs://lake/out/"],
    "abfs://c@account/out": [
        "abfss://c@account.dfs.core.windows.net/out", "abfs://c@Account.dfs.core.windows.net/out/",
        "wasbs://c@account.blob.core.windows.net//out",
    ],
    "dbfs:///x": ["dbfs:/x", "dbfs:///x/"],
}  # fmt: skip


@pytest.mark.parametrize(("one", "text"), [(one, text) for one, texts in SPELLINGS.items() for text in texts])
def test_all_spellings_of_a_root_are_one_place(one: str, text: str) -> None:
    assert place(text) == one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/x/out", "/x/Out"),
        ("/x/out", "hdfs:///x/out"),
        ("s3://lake/out", "s3://Lake/out"),
        ("s3://lake/out", "gs://lake/out"),
        ("s3://lake/a%2Fb", "s3://lake/a/b"),
        ("hdfs://one/x", "hdfs://two/x"),
        ("hdfs://nn/x", "hdfs://nn:9000/x"),
        ("abfss://c@one.dfs.core.windows.net/x", "abfss://c@two.dfs.core.windows.net/x"),
        ("abfss://c@one.dfs.core.windows.net/x", "abfss://d@one.dfs.core.windows.net/x"),
    ],
)
def test_other_roots_are_other_places(one: str, other: str) -> None:
    assert place(one) != place(other)


@given(st.sampled_from(["/", "file:///", "s3a://b/", "hdfs://n/"]), st.text(st.sampled_from("ab./"), max_size=12))
def test_a_place_is_its_own_place_and_has_the_same_files(head: str, tail: str) -> None:
    text = head + tail
    assert place(place(text)) == place(text)
    assert hadoop_form(place(text)) == hadoop_form(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/x//out/", Location("file", "/x/out")),
        ("s3a://lake//out/", Location("s3", "lake/out")),
        ("s3://lake/", Location("s3", "lake")),
        ("hdfs://nn:8020/x/./out", Location("hdfs", "/x/out")),
        ("abfss://c@a.dfs.core.windows.net/x//y", Location("abfs", "c/x/y")),
    ],
)
def test_files_are_sought_where_hadoop_writes_them(text: str, found: Location) -> None:
    assert hadoop_form(text) == found
