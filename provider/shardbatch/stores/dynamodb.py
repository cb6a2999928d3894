# SPDX-License-Identifier: Apache-2.0
"""The lease store in one DynamoDB table.

``pk`` is the namespace, ``sk`` the kind of row and its key. Every write is one conditional UpdateItem or DeleteItem,
every list a consistent, paged Query, so a permission on the leading key fences an application off. Nothing scans but
the list of all applications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from botocore import exceptions as failed
from botocore.parsers import ResponseParserError

from shardbatch.core.rows import APPLICATION, Columns, Key, Namespace, Row, Table
from shardbatch.core.tables import row_type
from shardbatch.errors import ConfigurationError, StoreError, StoreNotFound
from shardbatch.stores import outcome
from shardbatch.stores.dynamodb_item import (
    INDEXED,
    Item,
    address_of,
    assignments,
    attributes_of,
    columns_of,
    index_key,
    sort_prefix,
    too_large,
)
from shardbatch.stores.dynamodb_table import INDEX, INDEX_KEY, check_name, make_ready, pending
from shardbatch.stores.outcome import TOKEN, Stored, Unclear, Write, Writes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

THROTTLED = (
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "TransactionConflictException",
    "RequestTimeout",
    "RequestTimeoutException",
    "InternalServerError",
)
#: Refusals of credentials that are renewed, or of a clock that is set: they pass, and nothing was done.
PASSING = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
WITHOUT_CREDENTIALS = (failed.CredentialRetrievalError, failed.NoCredentialsError, failed.TokenRetrievalError)
DENIED = ("AccessDeniedException", "AccessDenied", "NotAuthorized")

#: What a client raises; and those after which it is unknown whether DynamoDB did what it was asked.
FAILURES = (failed.ClientError, failed.BotoCoreError, ResponseParserError, RuntimeError)
UNCLEAR = (
    failed.HTTPClientError,
    failed.ConnectionError,
    failed.IncompleteReadError,
    failed.ChecksumError,
    ResponseParserError,
)

#: Writes that are on their way at once: as many as the connections that a client keeps by default.
WRITERS = 10

T = TypeVar("T")


def open_url(url: str, *, client: DynamoDBClient | None = None, **options: Any) -> DynamoDBStore:
    """The store ``dynamodb://TABLE`` of a client.

    :raises ConfigurationError: without a client.
    """
    if client is None:
        raise ConfigurationError(
            "A DynamoDB lease store needs a client.", remedy="Give client=boto3.client('dynamodb')."
        )
    return DynamoDBStore(client, url.partition("://")[2].strip("/"), **options)


class DynamoDBStore:
    """Rows as items of one table; may be used by many threads.

    :param client: a boto3 client of DynamoDB; its own retries and time-outs apply to every call.
    :param table: the table's name, 3 to 255 characters.
    :param create: make the table in :meth:`prepare` if it is missing (default), on demand (PAY_PER_REQUEST).
    :param page_size: items that a list reads with one call (default: as many as fit into DynamoDB's 1 MB).
    :raises ConfigurationError: for an impossible name.
    """

    def __init__(
        self, client: DynamoDBClient, table: str, *, create: bool = True, page_size: int | None = None
    ) -> None:
        check_name(table)
        self.client = client
        self.table = table
        self.page_size = page_size
        self._create = create
        self._writes = Writes(tries=4, reads=1)  # botocore has tried reads again already

    def __repr__(self) -> str:
        return f"DynamoDBStore({self.table!r})"

    @property
    def writes(self) -> int:
        """Writes sent so far, botocore's own retries not counted."""
        return self._writes.sent

    def prepare(self) -> None:
        """Make the table if it is missing and wait until it is active; many may do so at once.

        :raises StoreNotFound: if it is missing and ``create`` is off.
        """
        self._ask(lambda: make_ready(self.client, self.table, create=self._create))

    def pending(self) -> tuple[str, ...]:
        """The call that makes the table, if it is not there; items need no columns."""
        return self._ask(lambda: pending(self.client, self.table))

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """The rows of a namespace and scope, or of all scopes, in key order, page by page, each consistent in itself.

        Batches of an ``owner`` are found through an index, which may lag by moments; each is then read consistently.
        """
        asked = INDEXED.get(table.name)
        found = self._query(table, namespace, scope, equal)
        if asked in equal:
            found = self._find(table, namespace, scope, equal[asked])
        for item in found:
            columns = columns_of(table, item)
            if all(columns.get(name) == value for name, value in equal.items()):
                yield row_type(table).from_columns(columns)

    def latest(self, table: Table, namespace: Namespace, scope: str, limit: int) -> Iterator[Row]:
        """The last rows of a namespace and scope, the last one first, page by page."""
        # Without a limit of its own a page is a megabyte, which is paid for.
        size = {} if self.page_size is not None else {"Limit": max(1, limit)}
        found = self._query(table, namespace, scope, {}, ScanIndexForward=False, **size)
        for item in islice(found, limit):
            yield row_type(table).from_columns(columns_of(table, item))

    def applications(self) -> Iterator[Columns]:
        """The columns of every namespace's application row: a scan, at half the price of consistent reads."""
        for item in self._pages(
            self.client.scan,
            FilterExpression="#sk = :sk",
            ExpressionAttributeNames={"#sk": "sk"},
            ExpressionAttributeValues={":sk": {"S": sort_prefix(APPLICATION, None)}},
        ):
            yield columns_of(APPLICATION, item)

    def get(self, key: Key) -> Row | None:
        """One row as it stands now."""
        item = self._ask(lambda: self._get(address_of(key)))
        return None if item is None else row_type(key.table).from_columns(columns_of(key.table, item))

    def create(self, row: Row) -> bool:
        """Write a row if its key has none."""
        return self._writes.settle(outcome.creation(row), self._send, self._look)

    def replace(self, seen: Row, new: Row) -> bool:
        """Write ``new`` if the counter is still that of ``seen``; attributes that this version does not know stay."""
        return self._writes.settle(outcome.replacement(seen, new), self._send, self._look)

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        """As :meth:`create` for each, several at once: DynamoDB's own batches know no conditions."""
        return self._settle_each(outcome.creations(rows))

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        """As :meth:`replace` for each, several at once."""
        return self._settle_each(outcome.replacements(changes))

    def delete(self, seen: Row) -> bool:
        """Remove the row if the counter is still that of ``seen``."""
        return self._writes.settle(outcome.deletion(seen), self._send, self._look)

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()

    def _settle_each(self, writes: Sequence[Write]) -> Sequence[bool]:
        with ThreadPoolExecutor(WRITERS) as pool:
            return list(pool.map(lambda write: self._writes.settle(write, self._send, self._look), writes))

    def _send(self, write: Write) -> bool:
        key = write.key
        condition: dict[str, Any] = {
            "TableName": self.table,
            "Key": address_of(key),
            "ConditionExpression": "attribute_not_exists(#k)" if write.before is None else "#n = :n",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        names = {"#k": "pk"} if write.before is None else {"#n": key.table.counter}
        values: dict[str, Any] = {} if write.before is None else {":n": {"N": str(write.before)}}
        try:
            if write.deletes:
                self.client.delete_item(**condition, ExpressionAttributeNames=names, ExpressionAttributeValues=values)
            else:
                expression = assignments(self.table, attributes_of(write), names, values)
                self.client.update_item(
                    **condition,
                    UpdateExpression=expression,
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values,
                )
            return True
        except self.client.exceptions.ConditionalCheckFailedException as error:
            return self._lost(write, error.response)
        except FAILURES as error:
            raise self._judge(error) from error

    def _lost(self, write: Write, response: Mapping[str, Any]) -> bool:
        """Whether a write failed on its own first success, which botocore sent again after losing the answer."""
        if "Item" in response:
            return bool(response["Item"].get(TOKEN, {}).get("S") == write.token)
        if response.get("ResponseMetadata", {}).get("RetryAttempts", 0):
            raise Unclear("botocore sent it more than once")
        return False

    def _look(self, key: Key) -> Stored | None:
        item = self._get(address_of(key))
        if item is None:
            return None
        return Stored(int(item[key.table.counter]["N"]), item.get(TOKEN, {}).get("S"))

    def _get(self, address: Item) -> Item | None:
        try:
            return self.client.get_item(TableName=self.table, Key=address, ConsistentRead=True).get("Item")
        except FAILURES as error:
            raise self._judge(error) from error

    def _ask(self, read: Callable[[], T]) -> T:
        def judged() -> T:
            try:
                return read()
            except FAILURES as error:
                raise self._judge(error) from error

        return self._writes.ask(repr(self), judged)

    def _query(
        self, table: Table, namespace: Namespace, scope: str | None, equal: Mapping[str, str], **order: int
    ) -> Iterator[Item]:
        """All items of a kind in a scope, or in all, those that differ from ``equal`` left out by the server."""
        names = {"#pk": "pk", "#sk": "sk"}
        values = {":pk": {"S": str(namespace)}, ":sk": {"S": sort_prefix(table, scope)}}
        asked: dict[str, Any] = {"ConsistentRead": True}
        if equal:
            asked["FilterExpression"] = " AND ".join(f"#f{n} = :f{n}" for n in range(len(equal)))
            names.update({f"#f{n}": name for n, name in enumerate(equal)})
            values.update({f":f{n}": {"S": value} for n, value in enumerate(equal.values())})
        yield from self._pages(
            self.client.query,
            KeyConditionExpression="#pk = :pk AND begins_with(#sk, :sk)",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            **asked,
            **order,
        )

    def _find(self, table: Table, namespace: Namespace, scope: str | None, value: str) -> Iterator[Item]:
        """The items that the index names, as they stand now."""
        values = {":k": {"S": index_key(namespace, value)}, ":sk": {"S": sort_prefix(table, scope)}}
        for hit in self._pages(
            self.client.query,
            IndexName=INDEX,
            KeyConditionExpression="#k = :k AND begins_with(#sk, :sk)",
            ExpressionAttributeNames={"#k": INDEX_KEY, "#sk": "sk"},
            ExpressionAttributeValues=values,
        ):
            item = self._ask(partial(self._get, {"pk": hit["pk"], "sk": hit["sk"]}))
            if item is not None:
                yield item

    def _pages(self, call: Callable[..., Any], **query: Any) -> Iterator[Item]:
        limit: dict[str, Any] = {} if self.page_size is None else {"Limit": self.page_size}
        after: dict[str, Any] = {}
        while True:
            page = self._ask(partial(call, TableName=self.table, **query, **limit, **after))
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            after = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _judge(self, error: Exception) -> Exception:
        """What a failed call means: the outcome is unknown, or the call cannot work."""
        if not isinstance(error, failed.ClientError):
            # Botocore's only word for credentials that were renewed and have expired all the same is a RuntimeError.
            expired = isinstance(error, RuntimeError) and "credentials" in str(error)
            if expired or isinstance(error, (*UNCLEAR, *WITHOUT_CREDENTIALS)):
                return Unclear(f"{type(error).__name__}: {error}")
            if isinstance(error, RuntimeError):
                return error
            return StoreError(f"DynamoDB could not be asked: {error}")
        code, said = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        action, where = f"dynamodb:{error.operation_name}", f"the table {self.table}"
        if code in (*THROTTLED, *PASSING) or error.response["ResponseMetadata"].get("HTTPStatusCode", 0) >= 500:
            return Unclear(f"{code}: {said}")
        if code in DENIED:
            return StoreError(
                f"AWS does not allow {action} on {where}: {said}",
                remedy=f"Allow {action} on it for this namespace (docs/stores.md has the policy).",
            )
        if code == "ResourceNotFoundException":
            return StoreNotFound(f"The DynamoDB table {self.table} (or its index {INDEX}) does not exist.")
        if code == "ValidationException" and "size" in said.lower() and "exceeded" in said.lower():
            return too_large(self.table)
        return StoreError(f"{action} on {where} failed: {code}: {said}")
