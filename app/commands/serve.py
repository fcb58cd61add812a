"""Open k3scope in the browser."""

from k3scope.app import models
from k3scope.model.checkpoint.model_registry import RegisteredModel


def arguments(parser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument("--port", type=int, default=5006, help="port to listen on (default: 5006)")
    parser.add_argument("--prefix", default="", help="path the page lives under, behind a proxy: /k3")
    parser.add_argument("--threads", type=int, default=4, help="threads for the visitors' clicks")
    parser.add_argument("--store", help="SQLite file of runs that links name (default: in the user's cache)")
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="HOST",
        help="host name that may embed or proxy the page",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a checkpoint folder in the official layout or a config.json, under a name of yours; repeatable",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")


def run(options) -> None:
    if not 1 <= options.threads <= 64:
        raise ValueError(f"--threads {options.threads}: expected 1 to 64")
    if not 0 < options.port < 65536:
        raise ValueError(f"--port {options.port}: expected 1 to 65535")
    for text in options.model:
        _announce(models.add(text))
    # panel and bokeh take a second to import: only the command that needs them does
    from k3scope.app.page import server
    from k3scope.app.runs.run_store import Store, default_path

    store = Store(options.store or default_path())
    prefix = "/" + options.prefix.strip("/") if options.prefix.strip("/") else ""
    server.serve(
        options.host, options.port, prefix, options.threads, store, options.allow_origin, not options.no_open
    )


def _announce(found: RegisteredModel) -> None:
    why = models.lacks(found.name)
    runs = f"is drawn but does not run: {why}" if why else "runs here"
    print(f"{found.name} ({found.config.layers} layers of {found.path}) {runs}", flush=True)
