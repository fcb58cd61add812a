"""Rules for the shape of the code, as functions from sources to offences; `test_structure` applies them."""

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from networkx import DiGraph, strongly_connected_components

# Bottom to top: a file may import what stands in its own line or below. `model/hooks.py` names a file,
# `model/vision/` a folder with all that is in it. A folder does not import another folder of its line.
ORDER = (
    "assets/",
    "model/kernels/ model/files/",
    "model/tokenizers/",
    "model/hooks.py model/norm.py",
    "model/vision/ model/quantization/",
    "model/config.py model/config_limits.py model/config_values.py model/transformers_config.py "
    "model/official_config.py model/official_config_write.py model/presets.py",
    "model/attnres.py model/cache.py model/ffn.py model/kda.py model/mla.py model/moe.py model/moe_packed.py "
    "model/layer.py model/kimi_linear.py model/kimi_k3.py model/init.py",
    "model/tracing.py",
    "model/checkpoint/",
    "model/accounting.py model/count_notes.py model/loading.py",
    "model/interventions/",
    "model/measure/",
    "model/runs/",
    "model/__init__.py",
    "model/training/",
    "diagrams/__init__.py diagrams/spec/",
    "diagrams/facts/",
    "diagrams/drawing/",
    "diagrams/cost/",
    "diagrams/scene/",
    "app/__init__.py app/front/__init__.py",
    "app/lab/ app/models.py app/model_cards.py",
    "app/link/",
    "app/pool/",
    "app/examples.py app/diagnostics.py",
    # the way of a prompt: what a run is, the pass, the queue and thread of a model, all models, one visitor
    "app/runs/__init__.py app/runs/memory.py app/runs/requester.py app/runs/run_spec.py "
    "app/runs/store_schema.py app/runs/store_file.py app/runs/retention.py app/runs/run_store.py "
    "app/runs/uploads.py app/runs/price.py app/runs/reading.py app/runs/fair_queue.py",
    "app/runs/continuation.py",
    "app/runs/run_result.py app/runs/job.py app/runs/forward_pass.py",
    "app/runs/result_cache.py app/runs/model_hash.py app/runs/runnable_model.py app/runs/run_work.py",
    "app/runs/worker.py",
    "app/runs/run_status.py",
    "app/runs/runner.py",
    "app/runs/ownership.py app/runs/run_link.py",
    "app/runs/attachments.py",
    "app/runs/compared_runs.py",
    "app/runs/run_session.py",
    "app/page/__init__.py app/page/kit/",
    "app/page/architecture/ app/page/dock/ app/page/inspector/ app/page/lab/ app/page/sheets/",
    "app/page/page.py app/page/server.py app/page/history.py app/page/health.py app/page/card_page.py "
    "app/page/preloaded.py app/page/loop_lag.py app/page/process_cost.py app/page/server_metrics.py "
    "app/page/http_headers.py app/page/log_lines.py app/page/session_limit.py "
    "app/page/connections.py",
    "app/commands/",
    "app/cli.py",
    "app/front/__main__.py",
)
# library -> the only places that may import it
HOMES = {
    "panel": ("app/page/",),
    "bokeh": ("app/page/",),
    "tornado": ("app/page/",),
    "prometheus_client": ("app/page/",),
    "param": ("app/link/", "app/runs/", "app/page/"),
    "torch": ("model/", "diagrams/", "app/"),
    "pebble": ("app/pool/",),
    "triton": ("model/kernels/",),
}
PACKAGES = ("app", "assets", "diagrams", "model")
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_KERNEL = 300, 50, 120


def module_of(path: str) -> str:
    """Name under which a file is imported: app/front is the package k3scope itself."""
    name = ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")
    return "k3scope" if name == "app.front" else f"k3scope.{name}"


def place_of(path: str) -> tuple[int, str] | None:
    """Line of ORDER, from the bottom, and the entry there that a file belongs to; None for none."""
    for rank, line in enumerate(ORDER):
        for entry in line.split():
            if path == entry or (entry.endswith("/") and path.startswith(entry)):
                return rank, entry
    return None


@dataclass(frozen=True)
class Tree:
    """Python sources by path, as `git ls-files` writes it."""

    sources: dict[str, str]

    @cached_property
    def parsed(self) -> dict[str, ast.Module]:
        return {path: ast.parse(text) for path, text in self.sources.items()}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Path of each module."""
        return {module_of(path): path for path in self.sources}

    def imports(self, path: str) -> set[str]:
        """Every module a file imports, also inside functions; of `from a import b` a.b where that is one."""
        names = set()
        for node in ast.walk(self.parsed[path]):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                full = {alias.name: f"{base}.{alias.name}" for alias in node.names}
                names |= {full[n] if full[n] in self.modules else base for n in full}
        return names

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """Path -> paths of this tree that it imports."""
        return {
            path: {self.modules[name] for name in self.imports(path) if name in self.modules} - {path}
            for path in self.sources
        }


def files_without_a_place(tree: Tree) -> list[str]:
    return [f"{path} belongs to no line of ORDER" for path in tree.sources if place_of(path) is None]


def entries_without_a_file(tree: Tree) -> list[str]:
    """An order that names what is gone would hold nothing."""
    used = {place[1] for path in tree.sources if (place := place_of(path))}
    entries = [entry for line in ORDER for entry in line.split()]
    return [f"{entry} is in ORDER and has no file" for entry in entries if entry not in used]


def upward_imports(tree: Tree) -> list[str]:
    offences = []
    for path, targets in tree.graph.items():
        for target in targets:
            own, other = place_of(path), place_of(target)
            if own and other and other[0] > own[0]:
                offences.append(f"{path} imports {target}, which stands above it")
    return offences


def sideways_imports(tree: Tree) -> list[str]:
    """Folders of one line know nothing of each other."""
    offences = []
    for path, targets in tree.graph.items():
        for target in targets:
            own, other = place_of(path), place_of(target)
            beside = own and other and own[0] == other[0] and own[1] != other[1]
            if beside and own[1].endswith("/") and other[1].endswith("/"):
                offences.append(f"{path} imports {target} from the folder beside it")
    return offences


def circles(tree: Tree) -> list[str]:
    """Files that import each other, over however many others."""
    graph = DiGraph([(path, target) for path, targets in tree.graph.items() for target in targets])
    groups = strongly_connected_components(graph)
    return [f"import each other: {', '.join(sorted(group))}" for group in groups if len(group) > 1]


def libraries_elsewhere(tree: Tree) -> list[str]:
    offences = []
    for path in tree.sources:
        for library in {name.split(".")[0] for name in tree.imports(path)} & HOMES.keys():
            if not path.startswith(HOMES[library]):
                offences.append(f"{path} imports {library}, which belongs to {', '.join(HOMES[library])}")
    return offences


def other_import_names(tree: Tree) -> list[str]:
    """Relative imports, and our folders under a name that is not k3scope."""
    return [
        f"{path} imports {name!r}: write k3scope.…"
        for path in tree.sources
        for name in tree.imports(path)
        if name.startswith(".") or name.split(".")[0] in PACKAGES
    ]


def repeated_names(tree: Tree) -> list[str]:
    """Classes, and files, of one name. A command may be called as what it runs."""
    classes, stems = defaultdict(set), defaultdict(set)
    for path, module in tree.parsed.items():
        if PurePosixPath(path).stem not in ("__init__", "__main__") and not path.startswith("app/commands/"):
            stems[PurePosixPath(path).stem].add(path)
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(f"{path}:{node.lineno}")
    every = [("class", classes), ("file", stems)]
    return [
        f"{kind} {name}: {', '.join(sorted(where))}"
        for kind, names in every
        for name, where in names.items()
        if len(where) > 1
    ]


def long_files(tree: Tree) -> list[str]:
    lengths = {path: len(text.splitlines()) for path, text in tree.sources.items()}
    return [f"{path} has {n} lines" for path, n in lengths.items() if n > LONGEST_FILE]


def long_functions(tree: Tree) -> list[str]:
    offences = []
    for path, module in tree.parsed.items():
        longest = LONGEST_KERNEL if path.startswith("model/kernels/") else LONGEST_FUNCTION
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > longest:
                    offences.append(f"{path}:{node.lineno} {node.name} has {lines} lines")
    return offences


RULES = (
    files_without_a_place,
    upward_imports,
    sideways_imports,
    circles,
    libraries_elsewhere,
    other_import_names,
    repeated_names,
    long_files,
    long_functions,
)
