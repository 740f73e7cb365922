"""Runs in a table of Google BigQuery, whose layout ``docs/sinks.md`` describes.

Rows come by a load job, which costs nothing and tells which row it refused, into a table of their own; one statement
then puts them in the place of what the table has of the same run. Streamed rows could not be replaced for an hour.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bucketbench.errors import ConfigurationError
from bucketbench.sinks.bigquery_columns import RUN_ID, RUN_STARTED_AT, Column, columns, results_in, rows_of
from bucketbench.sinks.document import RunDocument
from bucketbench.sinks.protocol import Pushed, SinkError

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, LoadJob, SchemaField, Table
    from google.cloud.bigquery.query import ScalarQueryParameter

__all__ = ["BigQuerySink"]

# Source: BigQuery documentation, names of data sets and tables; a table's may have more characters than these.
_PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{2,99}", re.ASCII)
_DATASET: Final = re.compile(r"\w{1,1024}", re.ASCII)
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]{1,1000}", re.ASCII)

_REQUEST_TIMEOUT_S: Final = 30
_RETRIES_S: Final = 60
"""For how long a request that failed is tried again."""
_UPLOAD_RETRIES: Final = 5
_JOB_TIMEOUT_S: Final = 600
_STAGING_LIFE: Final = timedelta(hours=1)
"""After which the service removes rows on their way, should this process be killed."""
_EVOLUTIONS: Final = 3
_TOLD_ERRORS: Final = 3
# Source: BigQuery documentation, "Error messages": of a row or a value; others are of the service, or of quotas.
_WRONG_ROW: Final = "invalid"
_ALIASES: Final = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}

_CREDENTIALS: Final = (
    "give Application Default Credentials: gcloud auth application-default login, GOOGLE_APPLICATION_CREDENTIALS, or "
    "the machine's service account"
)


class BigQuerySink:
    """Puts runs into a table, a row for each job.

    Args:
        dataset: the data set's name.
        table: the table's.
        project: that of the data set, which is charged as well; that of the credentials when None.
        location: where the data set is made; the service's default when None.
        endpoint: URL of an emulator, which is asked without credentials; Google's when None.
        create: whether to make the data set and the table where they are not there.

    Raises:
        ConfigurationError: a name is none, or an emulator is given without a project.
    """

    def __init__(
        self,
        *,
        dataset: str,
        table: str = "jobs",
        project: str | None = None,
        location: str | None = None,
        endpoint: str | None = None,
        create: bool = False,
    ) -> None:
        for key, value, pattern in (
            ("project", project, _PROJECT),
            ("dataset", dataset, _DATASET),
            ("table", table, _TABLE),
        ):
            if value is not None and not pattern.fullmatch(str(value)):
                raise ConfigurationError(f"sink.{key}={value} cannot be used: it is no name that BigQuery takes")
        if endpoint is not None and project is None:
            raise ConfigurationError(
                "sink.endpoint needs sink.project as well: an emulator has no credentials to tell it"
            )
        self._dataset = str(dataset)
        self._table = str(table)
        self._project = project
        self._location = location
        self._endpoint = endpoint
        self._create = create

    def push(self, run: RunDocument) -> Pushed:
        """Put a run into the table; see :class:`bucketbench.sinks.protocol.Sink`."""
        with self._explained():
            client = self._client()
            table = self._ensured_table(client)
            with self._loaded(client, table, rows_of(run)) as staging:
                self._replace(client, table, staging, run)
            there = self._count(client, run)
        if there != len(run.jobs):
            raise SinkError(
                f"{self._where}: {len(run.jobs)} jobs were loaded, and {there} are there: somebody else writes this "
                "run as well; push it again"
            )
        quoted = json.dumps(run.run_id)  # SQL of BigQuery writes text as JSON does
        question = f"SELECT * FROM `{self._name(client)}` WHERE {RUN_ID} = {quoted} ORDER BY number"  # noqa: S608 - told
        command = f"bq query --project_id={client.project} --use_legacy_sql=false {shlex.quote(question)}"
        return Pushed(where=self._where, jobs=there, command=command)

    def fetch(self, run_id: str) -> list[dict[str, Any]]:
        """The ``run_results.json`` of every run under an identifier; see :class:`bucketbench.sinks.protocol.Sink`."""
        runs: dict[datetime, list[dict[str, Any]]] = {}
        with self._explained():
            client = self._client()
            table, order = self._name(client), f"{RUN_STARTED_AT}, number"
            question = f"SELECT * FROM `{table}` WHERE {RUN_ID} = @run_id ORDER BY {order}"  # noqa: S608 - checked names
            for row in self._query(client, question, [_parameter("run_id", "STRING", run_id)]):
                runs.setdefault(row[RUN_STARTED_AT], []).append(row)
        return [results_in(rows) for rows in runs.values()]

    @property
    def _where(self) -> str:
        project = f"{self._project}." if self._project else ""
        place = f" ({self._endpoint})" if self._endpoint else ""
        return f"the BigQuery table {project}{self._dataset}.{self._table}{place}"

    def _name(self, client: Client) -> str:
        return f"{client.project}.{self._dataset}.{self._table}"

    def _client(self) -> Client:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        if self._endpoint is None:
            return bigquery.Client(project=self._project)
        return bigquery.Client(
            project=self._project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self._endpoint},
        )

    def _ensured_table(self, client: Client) -> Table:
        """The table, with every column that a row has; made where that was asked for."""
        from google.api_core.exceptions import NotFound, PreconditionFailed
        from google.cloud import bigquery

        options = _options()
        for _ in range(_EVOLUTIONS):
            try:
                table = client.get_table(self._name(client), **options)
            except NotFound:
                if not self._create:
                    raise
                self._ensure_dataset(client)
                made = bigquery.Table(self._name(client), schema=[_field(column) for column in columns()])
                made.time_partitioning = bigquery.TimePartitioning(field=RUN_STARTED_AT)
                made.clustering_fields = ["scenario", RUN_ID]
                client.create_table(made, exists_ok=True, **options)
                continue
            evolved = self._evolved(table.schema, columns())
            if evolved == list(table.schema):
                return table
            table.schema = evolved
            try:
                return client.update_table(table, ["schema"], **options)
            except PreconditionFailed:
                continue  # somebody else changed it meanwhile
        raise SinkError(f"{self._where} is changed by others all the time: push the run again later")

    def _ensure_dataset(self, client: Client) -> None:
        """See that the data set is there, which those may ask who may not make one."""
        from google.api_core.exceptions import NotFound
        from google.cloud import bigquery

        dataset = bigquery.Dataset(f"{client.project}.{self._dataset}")
        try:
            client.get_dataset(dataset.reference, **_options())
        except NotFound:
            if self._location is not None:
                dataset.location = self._location
            client.create_dataset(dataset, exists_ok=True, **_options())

    def _evolved(self, existing: Sequence[SchemaField], wanted: Sequence[Column], path: str = "") -> list[SchemaField]:
        """The fields that are there, as they are, with what is wanted beside them."""
        from google.cloud.bigquery import SchemaField

        by_name = {column.name.lower(): column for column in wanted}  # names do not differ by case alone
        fields = []
        for field in existing:
            column = by_name.pop(field.name.lower(), None)
            if column is None:
                fields.append(field)
                continue
            kind, mode = _ALIASES.get(field.field_type, field.field_type), field.mode or "NULLABLE"
            if kind != column.type or (mode == "REPEATED") != (column.mode == "REPEATED"):
                raise SinkError(
                    f"{self._where} has a column {path}{field.name} of {mode} {kind}, and the results need "
                    f"{column.mode} {column.type}: name another table with sink.table"
                )
            nested = self._evolved(field.fields, column.fields, f"{path}{field.name}.")
            whole = {**field.to_api_repr(), "fields": [inner.to_api_repr() for inner in nested]}
            fields.append(field if nested == list(field.fields) else SchemaField.from_api_repr(whole))
        return fields + [_field(column) for column in by_name.values()]

    @contextmanager
    def _loaded(self, client: Client, table: Table, rows: Sequence[dict[str, Any]]) -> Iterator[Table]:
        """A table with the rows alone, for as long as the context lasts."""
        from google.api_core.exceptions import GoogleAPIError
        from google.cloud import bigquery

        name = f"{self._table}__push_{uuid4().hex[:16]}"
        staging = bigquery.Table(f"{client.project}.{self._dataset}.{name}", schema=table.schema)
        staging.expires = datetime.now(UTC) + _STAGING_LIFE
        client.create_table(staging, exists_ok=True, **_options())  # it does where an earlier try's answer was lost
        try:
            data = "\n".join(json.dumps(row, allow_nan=False) for row in rows).encode()
            config = bigquery.LoadJobConfig(
                source_format=bigquery.SourceFormat.NEWLINE_DELIMITED_JSON,
                schema=table.schema,
                create_disposition=bigquery.CreateDisposition.CREATE_NEVER,
                write_disposition=bigquery.WriteDisposition.WRITE_APPEND,
            )
            # By an upload that is resumed where it breaks off, which is what the client does unless told a size.
            job = client.load_table_from_file(
                io.BytesIO(data),
                staging.reference,
                num_retries=_UPLOAD_RETRIES,
                job_id=name,
                location=table.location,
                job_config=config,
                timeout=_REQUEST_TIMEOUT_S,
            )
            self._wait(job)
            yield staging
        finally:
            with suppress(GoogleAPIError, OSError):  # it goes by itself within the hour
                client.delete_table(staging, not_found_ok=True, **_options())

    def _wait(self, job: LoadJob) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        try:
            job.result(retry=_options()["retry"], timeout=_JOB_TIMEOUT_S)
        except GoogleAPICallError as error:
            errors = job.errors or []
            if not errors:
                raise
            told = "; ".join(str(found.get("message")) for found in errors[:_TOLD_ERRORS])
            more = f" (and {len(errors) - _TOLD_ERRORS} more)" if len(errors) > _TOLD_ERRORS else ""
            if all(found.get("reason") != _WRONG_ROW for found in errors):
                raise SinkError(f"{self._where}: no row was taken: {told}{more}: push the run again later") from error
            raise SinkError(f"{self._where}: no row was taken, since some cannot be: {told}{more}") from error

    def _replace(self, client: Client, table: Table, staging: Table, run: RunDocument) -> None:
        """Put the loaded rows in the place of the run's, by one statement: readers see the old ones or the new ones."""
        names = ", ".join(f"`{field.name}`" for field in table.schema)
        values = ", ".join(f"pushed.`{field.name}`" for field in table.schema)
        source = f"{client.project}.{self._dataset}.{staging.table_id}"
        self._query(
            client,
            f"MERGE `{self._name(client)}` AS kept USING `{source}` AS pushed "  # noqa: S608 - checked names
            f"ON FALSE WHEN NOT MATCHED BY SOURCE AND kept.{RUN_ID} = @run_id AND kept.{RUN_STARTED_AT} = @started_at "
            f"THEN DELETE WHEN NOT MATCHED BY TARGET THEN INSERT ({names}) VALUES ({values})",
            _identity(run),
        )

    def _count(self, client: Client, run: RunDocument) -> int:
        (row,) = self._query(
            client,
            f"SELECT COUNT(*) AS jobs FROM `{self._name(client)}` "  # noqa: S608 - checked names
            f"WHERE {RUN_ID} = @run_id "
            f"AND {RUN_STARTED_AT} = @started_at",
            _identity(run),
        )
        return int(row["jobs"])

    def _query(
        self, client: Client, statement: str, parameters: Sequence[ScalarQueryParameter]
    ) -> list[dict[str, Any]]:
        from google.cloud.bigquery import QueryJobConfig

        never: Any = None  # a statement that failed is not repeated for 40 minutes
        rows = client.query_and_wait(
            statement,
            job_config=QueryJobConfig(query_parameters=list(parameters)),
            api_timeout=_REQUEST_TIMEOUT_S,
            wait_timeout=_JOB_TIMEOUT_S,
            retry=_options()["retry"],
            job_retry=never,
        )
        return [dict(row.items()) for row in rows]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have what Google's client raises say what to do."""
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests.exceptions import RequestException

        try:
            yield
        except GoogleAPICallError as error:
            raise SinkError(f"{self._where}: {_refusal(error)}") from error
        except (RequestException, RetryError, TransportError) as error:
            raise SinkError(
                f"{self._where}: it cannot be reached: {error}; push the run again when the network is there"
            ) from error
        except GoogleAuthError as error:
            raise SinkError(f"{self._where}: the credentials are of no use ({error}): {_CREDENTIALS}") from error
        except TimeoutError as error:
            raise SinkError(
                f"{self._where}: it did not end within {_JOB_TIMEOUT_S} s; push the run again later"
            ) from error
        except OSError as error:
            if "Project was not passed" not in str(error):
                raise
            raise SinkError(f"{self._where}: the credentials tell no project: add sink.project=PROJECT") from error


def _refusal(error: Any) -> str:
    from google.api_core import exceptions

    words = str(error.message).partition("\n")[0]
    reasons = {str(found.get("reason")) for found in error.errors or () if isinstance(found, dict)}
    if isinstance(error, exceptions.NotFound):
        return f"{words}: add sink.create=true to have it made, or correct sink.project, sink.dataset or sink.table"
    if isinstance(error, exceptions.TooManyRequests) or reasons & {"quotaExceeded", "rateLimitExceeded"}:
        return f"it is throttled: {words}: push the run again later"
    if "concurrent update" in words:
        return f"others write the table at the same time: {words}: push the run again"
    if isinstance(error, exceptions.Forbidden):
        return f"the credentials may not do this: {words}; docs/sinks.md has the permissions that are needed"
    if isinstance(error, exceptions.Unauthorized):
        return f"the credentials are not accepted: {_CREDENTIALS}"
    return f"it was refused: {words}"


def _options() -> dict[str, Any]:
    from google.cloud.bigquery import DEFAULT_RETRY

    return {"retry": DEFAULT_RETRY.with_timeout(_RETRIES_S), "timeout": _REQUEST_TIMEOUT_S}


def _field(column: Column) -> SchemaField:
    from google.cloud.bigquery import SchemaField

    fields = [_field(field) for field in column.fields]
    if column.description is None:
        return SchemaField(column.name, column.type, column.mode, fields=fields)
    return SchemaField(column.name, column.type, column.mode, column.description, fields=fields)


def _parameter(name: str, kind: str, value: Any) -> ScalarQueryParameter:
    from google.cloud.bigquery import ScalarQueryParameter

    return ScalarQueryParameter(name, kind, value)


def _identity(run: RunDocument) -> list[ScalarQueryParameter]:
    return [
        _parameter("run_id", "STRING", run.run_id),
        _parameter("started_at", "TIMESTAMP", datetime.fromisoformat(run.started_at)),
    ]
