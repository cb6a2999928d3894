# SPDX-License-Identifier: Apache-2.0
"""Small files through Spark's own file systems, so that an application needs no keys of its own."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.landing.location import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

#: Up to so many files are read one by one; more are read by a job.
_FEW = 100


def literal(path: str) -> str:
    """A path with ``*?[]{}`` escaped, which Spark's readers would treat as a pattern in every part of a path."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def spark_errors() -> tuple[type[Exception], ...]:
    """The errors of Spark and, if there is one, of its JVM."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect
        return (PySparkException,)
    return (PySparkException, Py4JError)


@contextmanager
def explained(doing: str, where: str) -> Iterator[None]:
    """Turn an error of Spark or Hadoop into a :class:`StagingError` that names the place and the remedy."""
    try:
        yield
    except spark_errors() as error:
        java = getattr(error, "java_exception", None)
        reason = (java.toString() if java is not None else str(error)).strip().splitlines()[0][:300]
        raise StagingError(
            f"Spark could not {doing} {where}: {reason}.",
            remedy="See that the cluster may reach it; if it knows the file system by another scheme, say so: "
            "open_batch(schemes={'s3': 's3a'}) or SHARDBATCH_SCHEMES=s3=s3a.",
            path=where,
        ) from error


@contextmanager
def few_listing_tasks(spark: SparkSession) -> Iterator[None]:
    """Make Spark list many given paths in a job of 64 tasks. By default it uses one task for each path, which takes a
    minute for 5,000 paths."""
    name, most = "spark.sql.sources.parallelPartitionDiscovery.parallelism", 64
    before = spark.conf.get(name)
    spark.conf.set(name, str(min(most, int(before or most))))
    try:
        yield
    finally:
        if before:
            spark.conf.set(name, before)
        else:
            spark.conf.unset(name)


class FrameFiles:
    """Uses only data frames. It works with every session, Spark Connect included, but each call costs a small job."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def read(self, uri: str) -> bytes:
        """A file's content."""
        with explained("read", uri):
            rows = self._binary().load(literal(uri)).select("content").collect()
        if len(rows) != 1:
            raise StagingError(f"{uri} is not one file.", path=uri)
        return bytes(rows[0][0])

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """What stands in these files of a folder, by name; one that is gone is left out."""
        paths = [literal(joined(folder, name)) for name in names] if len(names) <= _FEW else [literal(folder)]
        rows = self._listed(folder, "path", "content", paths=paths, gone=True)
        if not rows and paths != [literal(folder)]:  # at least one of them is gone
            rows = self._listed(folder, "path", "content", gone=True)
        found, wanted = {str(row[0]).rpartition("/")[2]: bytes(row[1]) for row in rows}, set(names)
        return {name: content for name, content in found.items() if name in wanted}

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""
        return sorted(str(row[0]).rpartition("/")[2] for row in self._listed(folder, "path"))

    def there(self, folder: str) -> bool:
        """Whether a folder has a file in it, at any depth."""
        return bool(self._listed(folder, "path", deep=True, limit=1))

    def put(self, folder: str, name: str, content: str) -> None:
        """Write a text as a file of a new folder. Spark chooses the file's name; readers see only a complete file."""
        from pyspark.sql import functions as F

        with explained("write", folder):
            frame = self.spark.range(1, numPartitions=1).select(F.lit(content).alias("value"))
            frame.write.mode("error").text(folder)

    def qualified(self, uri: str) -> str:
        """The whole URI of a place as an application wrote it."""
        if not uri.startswith("/") and ":" not in uri:
            raise ConfigurationError(f"The output {uri!r} is a relative path.", remedy="Give its whole URI.")
        return uri.rstrip("/")

    def _binary(self, deep: bool = False, gone: bool = False) -> Any:
        reader = self.spark.read.format("binaryFile").option("ignoreMissingFiles", str(gone).lower())
        return reader.option("recursiveFileLookup", str(deep).lower()).option("ignoreCorruptFiles", "false")

    def _listed(
        self,
        folder: str,
        *columns: str,
        paths: Sequence[str] = (),
        deep: bool = False,
        gone: bool = False,
        limit: int = 0,
    ) -> list[Any]:
        from pyspark.errors import AnalysisException

        with explained("list", folder):
            try:
                frame = self._binary(deep, gone).load(list(paths) or literal(folder)).select(*columns)
                return list((frame.limit(limit) if limit else frame).collect())
            except AnalysisException as error:
                if "PATH_NOT_FOUND" in str(error):
                    return []
                raise


class GatewayFiles(FrameFiles):
    """Uses Hadoop's file systems in the driver's JVM. It needs no job, and knows relative paths and default systems."""

    def __init__(self, spark: SparkSession, jvm: Any, conf: Any) -> None:
        super().__init__(spark)
        self._jvm = jvm
        self._conf = conf

    def read(self, uri: str) -> bytes:
        """A file's content."""
        with explained("read", uri):
            stream = self._open(uri)[0].open(self._open(uri)[1])
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """What stands in these files of a folder, by name; one that is gone is left out."""
        if len(names) > _FEW:
            return super().contents(folder, names)
        found = {}
        for name in names:
            try:
                found[name] = self.read(joined(folder, name))
            except StagingError as error:
                if "FileNotFoundException" not in str(error):
                    raise
        return found

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, of a large one also those of folders; none if there is no such folder."""
        with explained("list", folder):
            filesystem, path = self._open(folder)
            if not filesystem.exists(path):
                return []
            found = filesystem.listStatus(path)
            if len(found) <= _FEW:
                return sorted(str(s.getPath().getName()) for s in found if s.isFile())
            return sorted(self._names_at_once(found))

    def _names_at_once(self, found: Any) -> list[str]:
        # Thousands of calls into the JVM would take seconds, and so would a job: of Hadoop's own, this makes one text.
        hadoop = self._jvm.org.apache.hadoop
        conf = hadoop.mapred.JobConf(False)
        hadoop.mapred.FileInputFormat.setInputPaths(conf, hadoop.fs.FileUtil.stat2Paths(found))
        text = str(conf.get("mapreduce.input.fileinputformat.inputdir"))
        return [path.rpartition("/")[2] for path in re.split(r"(?<!\\),", text)]

    def there(self, folder: str) -> bool:
        """Whether a folder has a file in it, at any depth."""
        with explained("list", folder):
            filesystem, path = self._open(folder)
            return bool(filesystem.exists(path) and filesystem.listFiles(path, True).hasNext())

    def put(self, folder: str, name: str, content: str) -> None:
        """Write a text as a file of a new folder; readers see only a complete file."""
        target = joined(folder, name)
        with explained("write", target):
            filesystem, path = self._open(target)
            hidden = self._path(joined(folder, f".{name}.tmp"))
            stream = filesystem.create(hidden, False)
            try:
                stream.write(content.encode("utf-8"))
            finally:
                stream.close()
            renamed = filesystem.rename(hidden, path)
        if not renamed:
            raise StagingError(f"Spark could not give {target} its name.", path=target)

    def qualified(self, uri: str) -> str:
        """The whole URI of a place as an application wrote it."""
        with explained("find", uri):
            filesystem, path = self._open(uri)
            return str(filesystem.makeQualified(path).toString())

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)

    def _open(self, uri: str) -> tuple[Any, Any]:
        path = self._path(uri)
        return path.getFileSystem(self._conf), path


def files_of(spark: SparkSession) -> FrameFiles:
    """The better of the two that this session allows: some sessions give no access to the JVM."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return FrameFiles(spark)
    try:
        context: Any = spark.sparkContext
        files = GatewayFiles(spark, context._jvm, context._jsc.hadoopConfiguration())
        files.qualified("/")
    except (AttributeError, StagingError):  # what the JVM itself refuses comes as a StagingError
        return FrameFiles(spark)
    return files
