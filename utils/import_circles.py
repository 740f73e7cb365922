"""An import contract: no module imports itself by way of others, in functions and for type checkers included."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["NoImportCircles"]


class NoImportCircles(Contract):
    """``import-linter``'s own contracts look at packages side by side; this one looks at each module.

    A module that needs another one only inside a function, or for its types, is understood no better without it.
    """

    type_name = "no_circles"

    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002  # import-linter's own
        """Look for a circle in what is left after ``ignore_imports``."""
        ignored = [(one.importer.expression, one.imported.expression) for one in self.ignore_imports or ()]  # type: ignore[attr-defined]  # a descriptor
        unknown = [
            f"{importer} -> {imported}"
            for importer, imported in ignored
            if importer not in graph.modules or imported not in graph.find_modules_directly_imported_by(importer)
        ]
        for importer, imported in ignored:
            graph.remove_import(importer=importer, imported=imported)
        circle: list[str] = []
        try:
            TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
        except CycleError as error:
            circle = list(reversed(error.args[1]))
        return ContractCheck(kept=not (circle or unknown), metadata={"circle": circle, "unknown": unknown})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the circle, and the imports to be ignored that are there no more."""
        for line in check.metadata["unknown"]:
            output.print_error(f"ignore_imports names {line}, which is no import any more; remove it.")
        if check.metadata["circle"]:
            output.print_error(f"These import one another: {' -> '.join(check.metadata['circle'])}")
