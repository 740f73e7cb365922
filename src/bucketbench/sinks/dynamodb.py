"""Runs in a table of Amazon DynamoDB, whose layout ``docs/sinks.md`` describes."""

from __future__ import annotations

import gzip
import re
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from bucketbench.errors import ConfigurationError
from bucketbench.sinks.document import RunDocument, results_of
from bucketbench.sinks.dynamodb_items import (
    PARTITION,
    SORT,
    fields_of,
    items_of_job,
    items_of_run,
    joined,
    key,
    part_of_job,
    part_of_run,
    records_partition,
    spilled_part,
)
from bucketbench.sinks.protocol import Pushed, SinkError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef, QueryInputPaginateTypeDef

__all__ = ["DynamoDBSink"]

# Source: Amazon DynamoDB Developer Guide, "Constraints": names of tables.
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_CONNECT_TIMEOUT_S: Final = 5
_READ_TIMEOUT_S: Final = 20
_ATTEMPTS: Final = 8
"""Of a request, with pauses that double up to 20 s: a table that is throttled for some seconds takes the run anyway."""
_TABLE_POLLS: Final = 60
_TABLE_POLL_S: Final = 2

_CREDENTIALS: Final = (
    "give credentials in the environment, a profile (AWS_PROFILE) or the machine's role, as for every program of AWS"
)
_ADVICE: Final = {
    "AccessDeniedException": "the credentials may not do this; docs/sinks.md has the permissions that are needed",
    "ExpiredTokenException": f"the credentials have expired: {_CREDENTIALS}",
    "InvalidSignatureException": f"the secret key is wrong, or this machine's clock: {_CREDENTIALS}",
    "UnrecognizedClientException": f"the credentials are unknown there: {_CREDENTIALS}",
    "ProvisionedThroughputExceededException": "the table is throttled: push the run again later, or give it capacity",
    "ThrottlingException": "the table is throttled: push the run again later, or give it capacity",
    "RequestLimitExceeded": "the account is throttled: push the run again later",
}


class DynamoDBSink:
    """Puts runs into a table: an item a run, an item a job, and raw records in compressed items of their own.

    Args:
        table: its name.
        region: its region; that of the environment or the profile when None.
        endpoint: URL of a compatible service; Amazon's when None.
        create: whether to make the table where it is not there, billed by request.
        raw_records: whether the raw records of the jobs go there too.

    Raises:
        ConfigurationError: the table's name is none.
    """

    def __init__(
        self,
        *,
        table: str,
        region: str | None = None,
        endpoint: str | None = None,
        create: bool = False,
        raw_records: bool = True,
    ) -> None:
        if not _TABLE.fullmatch(str(table)):
            raise ConfigurationError(
                f"sink.table={table} cannot be used: expected 3 to 255 letters, digits and any of _.-"
            )
        self._table = str(table)
        self._region = region
        self._endpoint = endpoint
        self._create = create
        self._raw_records = raw_records

    def push(self, run: RunDocument) -> Pushed:
        """Put a run into the table; see :class:`bucketbench.sinks.protocol.Sink`.

        The item of the run is removed first and written last, by which :meth:`fetch` notices that a push broke off.
        What an earlier one left beyond this one is removed then.
        """
        with self._explained():
            client = self._client
            self._ensure_table(client)
            before = {name: self._parts(client, name, f"{run.started_at}/") for name in _partitions(run.run_id)}
            own = part_of_run(run.started_at)
            if own in before[run.run_id]:  # until all is there again, nobody shall take the old and the new for one run
                client.delete_item(TableName=self._table, Key=key(run.run_id, own))
            written: set[tuple[str, str]] = set()

            def put(item: dict[str, AttributeValueTypeDef]) -> None:
                client.put_item(TableName=self._table, Item=item)
                written.add((item[PARTITION]["S"], item[SORT]["S"]))

            for job in run.jobs:
                for item in items_of_job(run, job, raw_records=self._raw_records):
                    put(item)
            for item in items_of_run(run):
                put(item)
            for partition, parts in before.items():
                for part in parts:
                    if (partition, part) not in written:
                        client.delete_item(TableName=self._table, Key=key(partition, part))
            there = len(self._parts(client, run.run_id, f"{run.started_at}/job/"))
            region = client.meta.region_name
        if there != len(run.jobs):
            raise SinkError(
                f"{self._where}: {len(run.jobs)} jobs were written, and {there} are there: somebody else writes this "
                "run as well; push it again"
            )
        return Pushed(where=self._where, jobs=there, command=self._command(run.run_id, region))

    def fetch(self, run_id: str) -> list[dict[str, Any]]:
        """The ``run_results.json`` of every run under an identifier; see :class:`bucketbench.sinks.protocol.Sink`."""
        runs: dict[str, dict[str, Any]] = {}
        jobs: dict[str, dict[int, dict[str, Any]]] = {}
        with self._explained():
            client = self._client
            for item in self._items(client, run_id, ""):
                part = item[SORT]["S"]
                started_at, _, rest = part.partition("/")
                kind, content, chunks = fields_of(item)
                content |= self._joined(client, run_id, spilled_part(part), chunks.get("spilled", 0))
                if kind == "run":
                    runs[started_at] = content
                else:
                    jobs.setdefault(started_at, {})[int(rest.rpartition("/")[2])] = content
        for started_at in runs.keys() | jobs.keys():
            expected, found = runs.get(started_at, {}).pop("jobs", "none"), len(jobs.get(started_at, {}))
            if expected != found:
                raise SinkError(
                    f"{self._where}: {run_id} has {found} jobs there and {expected} by its own account: a push broke "
                    "off or is under way; push it again"
                )
        return [results_of({"run_id": run_id, **fields}, jobs[at]) for at, fields in sorted(runs.items())]

    def fetch_records(self, run_id: str, *, started_at: str, number: int) -> dict[str, str]:
        """The raw records of one job, by the name of their file below its directory.

        Args:
            run_id: the run's identifier.
            started_at: when the run began, as its results have it.
            number: the job's.

        Raises:
            SinkError: they could not be read.
        """
        part = part_of_job(started_at, number)
        with self._explained():
            client = self._client
            found = list(self._items(client, run_id, part))
            if not found:
                raise SinkError(f"{self._where}: {run_id} has no job {number} there: push it again")
            _, _, chunks = fields_of(found[0])
            return self._joined(client, run_id, f"{part}/records/", chunks.get("records", 0))

    @property
    def _where(self) -> str:
        place = self._endpoint or self._region
        return f"the DynamoDB table {self._table}{f' ({place})' if place else ''}"

    def _command(self, run_id: str, region: str) -> str:
        quoted = run_id.replace("'", "''")
        statement = f"SELECT * FROM \"{self._table}\" WHERE {PARTITION} = '{quoted}'"  # noqa: S608 - told, and quoted
        endpoint = f" --endpoint-url {shlex.quote(self._endpoint)}" if self._endpoint else ""
        return (
            f"aws dynamodb execute-statement --region {shlex.quote(region)}{endpoint} --statement "
            f"{_shell_text(statement)}"
        )

    @cached_property
    def _client(self) -> DynamoDBClient:
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            retries={"mode": "standard", "max_attempts": _ATTEMPTS},
        )
        # A session of its own: boto3's default one keeps the credentials that the process had first.
        return boto3.Session().client("dynamodb", region_name=self._region, endpoint_url=self._endpoint, config=config)

    def _ensure_table(self, client: DynamoDBClient) -> None:
        """See that the table is there and has our keys; make it where that was asked for."""
        try:
            table = client.describe_table(TableName=self._table)["Table"]
        except client.exceptions.ResourceNotFoundException:
            if not self._create:
                raise
            self._make_table(client)
            return
        keys = [(part["AttributeName"], part["KeyType"]) for part in table["KeySchema"]]
        if sorted(keys) != [(SORT, "RANGE"), (PARTITION, "HASH")]:
            told = " and ".join(f"{name} ({kind})" for name, kind in keys)
            raise SinkError(
                f"{self._where} has the keys {told}, expected {PARTITION} (HASH) and {SORT} (RANGE): name a table of "
                "bucketbench's own with sink.table"
            )
        if table["TableStatus"] == "CREATING":
            self._wait_for_table(client)

    def _make_table(self, client: DynamoDBClient) -> None:
        with suppress(client.exceptions.ResourceInUseException):  # another push has made it meanwhile
            client.create_table(
                TableName=self._table,
                KeySchema=[
                    {"AttributeName": PARTITION, "KeyType": "HASH"},
                    {"AttributeName": SORT, "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": PARTITION, "AttributeType": "S"},
                    {"AttributeName": SORT, "AttributeType": "S"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        self._wait_for_table(client)

    def _wait_for_table(self, client: DynamoDBClient) -> None:
        client.get_waiter("table_exists").wait(
            TableName=self._table, WaiterConfig={"Delay": _TABLE_POLL_S, "MaxAttempts": _TABLE_POLLS}
        )

    def _items(
        self, client: DynamoDBClient, partition: str, prefix: str, *, keys_only: bool = False
    ) -> Iterator[dict[str, AttributeValueTypeDef]]:
        """The items of a partition whose sort keys begin so, in the order of these."""
        condition = "#partition = :partition" + (" AND begins_with(#sort, :prefix)" if prefix else "")
        query: QueryInputPaginateTypeDef = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": {"#partition": PARTITION, **({"#sort": SORT} if prefix or keys_only else {})},
            "ExpressionAttributeValues": {
                ":partition": {"S": partition},
                **({":prefix": {"S": prefix}} if prefix else {}),
            },
        }
        if keys_only:
            query["ProjectionExpression"] = "#sort"
        for page in client.get_paginator("query").paginate(**query):
            yield from page["Items"]

    def _joined(self, client: DynamoDBClient, run_id: str, prefix: str, count: int) -> dict[str, Any]:
        """What was compressed and cut into so many items."""
        chunks = list(self._items(client, records_partition(run_id), prefix)) if count else []
        if len(chunks) != count:
            raise SinkError(f"{self._where}: {len(chunks)} of {count} pieces of {run_id} are there: push it again")
        try:
            return joined(chunks)
        except (EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
            raise SinkError(f"{self._where}: pieces of {run_id} do not fit together: push it again") from error

    def _parts(self, client: DynamoDBClient, partition: str, prefix: str) -> list[str]:
        return [item[SORT]["S"] for item in self._items(client, partition, prefix, keys_only=True)]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have what boto3 raises say what to do."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise SinkError(f"{self._where}: {self._refusal(error.response, error.operation_name)}") from error
        except BotoCoreError as error:
            raise SinkError(f"{self._where}: {_failure(error)}") from error

    def _refusal(self, response: Any, operation: str) -> str:
        code = str(response.get("Error", {}).get("Code"))
        if code == "ResourceNotFoundException":
            return "there is no such table: add sink.create=true to have it made, or correct sink.table or sink.region"
        # The first line: what follows may be the request that was signed, with a session token in it.
        words = str(response.get("Error", {}).get("Message", "")).partition("\n")[0]
        return f"{operation} was refused: {_ADVICE.get(code, words)} ({code})"


def _shell_text(text: str) -> str:
    """Text with single quotes in it as one word for a shell, as readable as it can be."""
    special = any(character in text for character in "$`\\!")
    return shlex.quote(text) if special else '"' + text.replace('"', '\\"') + '"'


def _partitions(run_id: str) -> tuple[str, str]:
    return run_id, records_partition(run_id)


def _failure(error: Exception) -> str:
    from botocore import exceptions

    if isinstance(error, exceptions.NoRegionError):
        return "no region is known: add sink.region=REGION"
    if isinstance(
        error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError | exceptions.CredentialRetrievalError
    ):
        return f"there are no credentials: {_CREDENTIALS}"
    if isinstance(error, exceptions.WaiterError):
        return "the table is still being made: push the run again later"
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return f"it cannot be reached: {error}; push the run again when the network is there"
    return f"{type(error).__name__}: {error}"
