# SPDX-License-Identifier: Apache-2.0
"""A URI leads to its file system whatever is written in its path."""

from __future__ import annotations

import pytest

from shardbatch.landing.reach import reach


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("/my folder, 5% x", "local"),
        ("file:///my folder", "local"),
        ("gs://anonymous@bucket/my folder, 5% x#y", "gcs"),
        ("s3a://bucket/my folder, 5% x#y", "py::boto3+s3"),
    ],
)
def test_a_path_with_blanks_and_signs_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, uri: str, kind: str) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert reach(uri).type_name == kind
