# SPDX-License-Identifier: Apache-2.0
"""How the places of files are written: plain paths and URIs of one file system in their several spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)
#: One kind of file system, its schemes.
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "local": "file"}
#: The port that a name node has unless one is given.
_HDFS_PORT = ":8020"


@dataclass(frozen=True)
class Location:
    """``kind`` of file system (``file``, ``s3``, ``gs``, ``abfs``, ``hdfs``, …) and the path that it knows."""

    kind: str
    path: str

    @property
    def local(self) -> bool:
        """Whether it is on this machine's own file system."""
        return self.kind == "file"


def locate(text: str) -> Location:
    """Where a plain path or a URI points: ``s3://b/k``, ``s3a://b/k``; ``/k``, ``file:/k``, ``file:///k``, …

    Nothing is decoded: Hadoop and shardbatch take a URI's path as it stands.
    """
    return _located(*_parts(text))


def place(text: str) -> str:
    """One text for a folder in whatever spelling: ``/x/out``, ``file:/x//out/`` and ``file:///x/./out`` are one place,
    ``s3://b/out`` and ``s3a://b//out/`` another.

    Paths are brought into the form of Hadoop's ``Path``, which is where Spark writes. ``hdfs`` keeps its name node
    (without the port that is the default), ``abfs`` its container and account.
    """
    kind, authority, path = _parts(text)
    path = _normal(path)
    if kind in ("hdfs", "viewfs"):
        authority = authority.lower()
        authority = authority[: -len(_HDFS_PORT)] if authority.endswith(_HDFS_PORT) else authority
    elif kind == "abfs":
        container, at, host = authority.partition("@")
        authority = container + at + host.partition(".")[0].lower()
    elif kind == "file":
        authority = ""
    return f"{kind}://{authority}{'' if path == '/' and authority else path}"


def hadoop_form(text: str) -> Location:
    """Where a folder is to which Spark writes: as :func:`locate`, with the path in Hadoop's form."""
    kind, authority, path = _parts(text)
    return _located(kind, authority, _normal(path))


def joined(folder: str, *names: str) -> str:
    """Names below a folder, with one slash between."""
    return "/".join([_trimmed(folder) if folder != "/" else "", *names])


def rewritten(uri: str, schemes: Mapping[str, str]) -> str:
    """The URI under the scheme that this cluster knows, such as ``{"s3": "s3a"}``."""
    found = _SCHEME.match(uri)
    if found and found.group(1).lower() in schemes:
        return f"{schemes[found.group(1).lower()]}:{found.group(2)}"
    return uri


def _trimmed(path: str) -> str:
    return path.rstrip("/") or path[:1]


def _parts(text: str) -> tuple[str, str, str]:
    """Kind of file system, authority and path, as they stand."""
    found = _SCHEME.match(text)
    if not found:
        return "file", "", text
    scheme, rest = found.group(1).lower(), found.group(2)
    authority = ""
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
    return _SAME.get(scheme, scheme), authority, rest or "/"


def _located(kind: str, authority: str, path: str) -> Location:
    if kind in ("file", "hdfs", "viewfs"):
        return Location(kind, _trimmed(path))
    if kind == "abfs":
        authority = authority.partition("@")[0]
    return Location(kind, _trimmed(f"{authority}{path}".lstrip("/")))


def _normal(path: str) -> str:
    """As Hadoop's ``Path`` does it: one slash between names, none at the end, ``.`` and ``..`` worked out."""
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return ("/" if path.startswith("/") else "") + "/".join(names)
