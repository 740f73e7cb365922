"""Stands for BigQuery on the loopback address: the calls that a push and a fetch make of its REST API, and no others.

It is as strict as the service where a sink could be wrong: a load job takes no row where one has an unknown field or a
value of another type, a schema can only grow, a change needs the ETag of what it changes, and a statement that is none
of those it knows is refused. Its SQL is the text of these statements; what an engine makes of it is for the nights.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

__all__ = ["BigQueryServer", "serving_bigquery"]

_KEYS = r"run_id = @run_id AND (?:kept\.)?run_started_at = @started_at"
_MERGE = re.compile(
    r"MERGE `(?P<table>[^`]+)` AS kept USING `(?P<source>[^`]+)` AS pushed ON FALSE "
    rf"WHEN NOT MATCHED BY SOURCE AND kept\.{_KEYS} THEN DELETE "
    r"WHEN NOT MATCHED BY TARGET THEN INSERT \((?P<names>.*)\) VALUES \((?P<values>.*)\)"
)
_COUNT = re.compile(rf"SELECT COUNT\(\*\) AS jobs FROM `(?P<table>[^`]+)` WHERE {_KEYS}")
_SELECT = re.compile(
    r'SELECT \* FROM `(?P<table>[^`]+)` WHERE run_id = (?:@run_id|"(?P<run_id>[^"]*)") '
    r"ORDER BY (?:run_started_at, )?number"
)


class RefusedError(Exception):
    """An answer that tells an error as BigQuery does."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {
                "code": status,
                "message": message,
                "errors": [{"reason": reason, "message": message, "domain": "global"}],
            }
        }


@dataclass(frozen=True)
class Begun:
    """An upload that goes on elsewhere."""

    url: str


@dataclass
class Table:
    """A table: its resource as the API has it, and its rows as they are in the service."""

    resource: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.resource["schema"]["fields"]
        return found


@dataclass
class BigQueryServer:
    """What the service has, and what it was asked for."""

    url: str = ""
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        place = urlsplit(path).path
        self.asked.append(f"{method} {place}")
        words = place.removeprefix("/upload").removeprefix("/bigquery/v2/projects/").split("/")
        project, kind, *rest = words
        with self.lock:
            if place.startswith("/upload"):
                return self._upload(method, path, headers, body)
            sent = json.loads(body) if body else {}
            match method, kind, rest:
                case "POST", "datasets", []:
                    return self._make_dataset(sent)
                case "GET", "datasets", [dataset]:
                    return self._dataset(project, dataset)
                case "POST", "datasets", [dataset, "tables"]:
                    return self._make_table(project, dataset, sent)
                case "GET", "datasets", [dataset, "tables", table]:
                    return self._table(project, dataset, table).resource
                case "PATCH", "datasets", [dataset, "tables", table]:
                    return self._change_table(self._table(project, dataset, table), sent, headers.get("If-Match"))
                case "DELETE", "datasets", [dataset, "tables", table]:
                    self._table(project, dataset, table)
                    del self.tables[dataset, table]
                    return {}
                case "GET", "jobs", [job]:
                    return self.jobs[job]
                case "POST", "queries", []:
                    return self._query(project, sent)
        raise RefusedError(501, "notImplemented", f"nobody asks for {method} {place}")

    def _make_dataset(self, sent: dict[str, Any]) -> dict[str, Any]:
        name = sent["datasetReference"]["datasetId"]
        if name in self.datasets:
            raise RefusedError(409, "duplicate", f"Already Exists: Dataset {name}")
        self.datasets[name] = {**sent, "location": sent.get("location") or "US"}
        return self.datasets[name]

    def _dataset(self, project: str, name: str) -> dict[str, Any]:
        if name not in self.datasets:
            raise RefusedError(404, "notFound", f"Not found: Dataset {project}:{name}")
        return self.datasets[name]

    def _table(self, project: str, dataset: str, name: str) -> Table:
        self._dataset(project, dataset)
        if (dataset, name) not in self.tables:
            raise RefusedError(404, "notFound", f"Not found: Table {project}:{dataset}.{name}")
        return self.tables[dataset, name]

    def _make_table(self, project: str, dataset: str, sent: dict[str, Any]) -> dict[str, Any]:
        location = self._dataset(project, dataset)["location"]
        name = sent["tableReference"]["tableId"]
        if (dataset, name) in self.tables:
            raise RefusedError(409, "duplicate", f"Already Exists: Table {project}:{dataset}.{name}")
        resource = {**sent, "id": f"{project}:{dataset}.{name}", "etag": "1", "location": location, "type": "TABLE"}
        self.tables[dataset, name] = Table(resource)
        return resource

    def _change_table(self, table: Table, sent: dict[str, Any], etag: str | None) -> dict[str, Any]:
        if etag is not None and etag != table.resource["etag"]:
            raise RefusedError(412, "conditionNotMet", "Precondition Failed")
        _check_growth(table.fields, sent["schema"]["fields"])
        table.resource |= {"schema": sent["schema"], "etag": str(int(table.resource["etag"]) + 1)}
        table.rows = [_stored(row, table.fields, 0) for row in table.rows]
        return table.resource

    def _upload(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        """A session begins with the job, which is done when its data are there; sending them again changes nothing."""
        if method == "POST":
            assert "uploadType=resumable" in path
            session = f"{self.url}{path}&upload_id={len(self.sessions)}"
            self.sessions[urlsplit(session).query] = json.loads(body)
            return Begun(session)
        job = self.sessions[urlsplit(path).query]
        assert headers["Content-Range"] == f"bytes 0-{len(body) - 1}/{len(body)}"
        name = job["jobReference"]["jobId"]
        return self.jobs[name] if name in self.jobs else self._load(job, body)

    def _load(self, job: dict[str, Any], data: bytes) -> dict[str, Any]:
        load, name = job["configuration"]["load"], job["jobReference"]["jobId"]
        assert (load["sourceFormat"], load["createDisposition"]) == ("NEWLINE_DELIMITED_JSON", "CREATE_NEVER")
        place = load["destinationTable"]
        table = self._table(place["projectId"], place["datasetId"], place["tableId"])
        rows, errors, position = [], [], 0
        for line in data.splitlines(keepends=True):
            try:
                rows.append(_stored(json.loads(line), table.fields, position))
            except ValueError as error:
                errors.append({"reason": "invalid", "message": str(error)})
            position += len(line)
        status: dict[str, Any] = {"state": "DONE"}
        if errors:
            status |= {"errorResult": errors[0], "errors": errors}
        else:
            table.rows += rows
        self.jobs[name] = {**job, "status": status, "statistics": {"load": {"outputRows": str(len(rows))}}}
        return self.jobs[name]

    def _query(self, project: str, sent: dict[str, Any]) -> dict[str, Any]:
        assert sent["useLegacySql"] is False
        statement = sent["query"]
        given = {one["name"]: one["parameterValue"]["value"] for one in sent.get("queryParameters", ())}
        answer = {"jobComplete": True, "jobReference": {"projectId": project, "jobId": "a-query", "location": "US"}}
        if found := _MERGE.fullmatch(statement):
            kept, pushed = self._named(found["table"]), self._named(found["source"])
            names = re.findall(r"`([^`]+)`", found["names"])
            assert names == re.findall(r"pushed\.`([^`]+)`", found["values"])
            assert [one["name"] for one in kept.fields] == names
            if kept.fields != pushed.fields:
                raise RefusedError(400, "invalidQuery", "Value has type that is not that of its column")
            before = len(kept.rows)
            kept.rows = [row for row in kept.rows if not _is_of(row, given)]
            affected = before - len(kept.rows) + len(pushed.rows)
            kept.rows += pushed.rows
            return answer | {"numDmlAffectedRows": str(affected), "totalRows": "0"}
        if found := _COUNT.fullmatch(statement):
            count = sum(_is_of(row, given) for row in self._named(found["table"]).rows)
            fields = [{"name": "jobs", "type": "INTEGER", "mode": "NULLABLE"}]
            return answer | {"schema": {"fields": fields}, "totalRows": "1", "rows": [{"f": [{"v": str(count)}]}]}
        if found := _SELECT.fullmatch(statement):
            table, run_id = self._named(found["table"]), found["run_id"] or given["run_id"]
            rows = [row for row in table.rows if row["run_id"] == run_id]
            rows.sort(key=lambda row: (row["run_started_at"], row["number"]))
            told = [_told(row, table.fields) for row in rows]
            return answer | {"schema": {"fields": table.fields}, "totalRows": str(len(rows)), "rows": told}
        raise RefusedError(400, "invalidQuery", f"Syntax error: {statement}")

    def _named(self, name: str) -> Table:
        return self._table(*name.split("."))


def _check_growth(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    found = {one["name"]: one for one in after}
    for one in before:
        new = found.get(one["name"])
        if new is None or any(new.get(key) != one.get(key) for key in ("type", "mode")):
            raise RefusedError(400, "invalid", f"Provided Schema does not match Table: field {one['name']} has changed")
        _check_growth(one.get("fields", []), new.get("fields", []))


def _stored(row: Any, fields: list[dict[str, Any]], position: int) -> dict[str, Any]:
    """A row as the service keeps it; raise ValueError with its words where it takes none such."""
    where = f"Error while reading data, error message: JSON parsing error in row starting at position {position}"
    unknown = set(row) - {one["name"] for one in fields}
    if unknown:
        raise ValueError(f"{where}: No such field: {min(unknown)}.")
    kept = {}
    for one in fields:
        name, value = one["name"], row.get(one["name"], [] if one["mode"] == "REPEATED" else None)
        if (one["mode"] == "REPEATED") != isinstance(value, list):
            raise ValueError(f"{where}: Field: {name}; Value: {value}; it is {'no' if value is None else 'an'} array")
        values = value if isinstance(value, list) else [value]
        checked = [None if item is None else _scalar(item, one, where, position) for item in values]
        kept[name] = checked if isinstance(value, list) else checked[0]
    return kept


def _scalar(value: Any, one: dict[str, Any], where: str, position: int) -> Any:
    kinds: dict[str, tuple[type, ...]] = {
        "STRING": (str,),
        "INTEGER": (int,),
        "FLOAT": (int, float),
        "BOOLEAN": (bool,),
        "TIMESTAMP": (str,),
        "RECORD": (dict,),
    }
    if not isinstance(value, kinds[one["type"]]) or (isinstance(value, bool) and one["type"] != "BOOLEAN"):
        raise ValueError(
            f"{where}: Could not convert value to {one['type'].lower()}. Field: {one['name']}; Value: {value}"
        )
    if one["type"] == "RECORD":
        return _stored(value, one["fields"], position)
    if one["type"] == "TIMESTAMP":
        return str(_microseconds(value))
    return float(value) if one["type"] == "FLOAT" else value


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _is_of(row: dict[str, Any], given: dict[str, str]) -> bool:
    moment = str(_microseconds(given["started_at"]))
    return (row["run_id"], row["run_started_at"]) == (given["run_id"], moment)


def _told(row: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    """A row in the API's own notation."""

    def value(item: Any, one: dict[str, Any]) -> Any:
        if isinstance(item, list):
            return [{"v": value(inner, one)} for inner in item]
        if isinstance(item, dict):
            return _told(item, one["fields"])
        return item if item is None or isinstance(item, str) else json.dumps(item)

    return {"f": [{"v": value(row[one["name"]], one)} for one in fields]}


@contextmanager
def serving_bigquery() -> Iterator[BigQueryServer]:
    """Serve, for as long as the context lasts."""
    state = BigQueryServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, answer = 200, state.answer(self.command, self.path, self.headers, body)
            except RefusedError as refused:
                status, answer = refused.status, refused.body
            data = b"" if isinstance(answer, Begun) else json.dumps(answer).encode()
            self.send_response(status)
            if isinstance(answer, Begun):
                self.send_header("Location", answer.url)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names that the server looks for

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
