"""How fast the command line answers: help and typos without torch, counts without its compiler."""

import resource
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from k3scope.app.cli import COMMANDS, command_module

HEAVY = ("torch", "numpy", "panel", "bokeh", "networkx", "yaml", "PIL")
ANSWER = 0.4  # seconds of CPU for help, version and a typo
COUNT = 2.5  # for every parameter of the release
LOADED = """
import sys
from k3scope.app.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as exit:
    status = exit.code
print("status", status, "loaded", *[name for name in %r if name in sys.modules])
"""


def k3scope(*argv: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "k3scope", *argv], capture_output=True, text=True)


def answer(*argv: str) -> tuple[str, str]:
    """The last line of a run in a process of its own, with the status and what it loaded; and its errors."""
    done = subprocess.run([sys.executable, "-c", LOADED % (HEAVY,), *argv], capture_output=True, text=True)
    return done.stdout.splitlines()[-1], done.stderr


def is_within(budget: float, *argv: str) -> bool:
    """Whether the whole process takes less CPU, in one of three tries: others use the machine too."""
    return any(cpu(argv) < budget for _ in range(3))


def cpu(argv: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    k3scope(*argv)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    "argv", [("--help",), ("--version",), ("parms",), ("serve", "--prot", "1")], ids=" ".join
)
def test_help_and_typos_are_answered_at_once(argv):
    assert is_within(ANSWER, *argv)


@pytest.mark.slow
def test_the_release_is_counted_in_seconds():
    assert is_within(COUNT, "params", "kimi-k3")


@pytest.mark.slow
def test_counting_leaves_the_compiler_of_torch_alone():
    code = "import sys\nfrom k3scope import meta\nmeta('kimi-k3')\nprint('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"False\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_nothing_heavy(command):
    assert answer(command, "--help") == ("status 0 loaded", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_each_file_says(command):
    assert COMMANDS[command] == command_module(command).__doc__.split("\n")[0]


def test_without_arguments_the_help_is_printed():
    assert k3scope().stdout == k3scope("--help").stdout
    assert k3scope().returncode == 0


def test_version():
    import k3scope as package

    assert k3scope("--version").stdout == f"k3scope {package.__version__}\n"


TYPOS = [
    (["parms"], "'params'"),
    (["compare_trace", "a", "b"], "'compare-trace'"),
    (["--verison"], "'--version'"),
    (["params", "--fromat", "json"], "'--format'"),
    (["params", "--by", "layr"], "'layer'"),
    (["serve", "--prot", "1"], "'--port'"),
    (["serve", "--prot=1"], "'--port'"),
    (["compare", "kimi-k3", "kimi-linear-48b", "--formt", "json"], "'--format'"),
    (["trace", "k3-tiny", "--promt", "x", "--out", "y"], "'--prompt'"),  # the one that is required
    (["compare-trace", "a", "b", "--tolerence", "1"], "'--tolerance'"),
    (["generate", "--prompt", "x", "--tokns", "3"], "'--tokens'"),
    (["score", "--text_file", "x"], "'--text-file'"),
    (["lab", "x", "--view", "routng", "--out", "y"], "'routing'"),
    (["lab", "x", "--veiw", "routing", "--out", "y"], "'--view'"),
    (["export", "--layr", "3", "--out", "y"], "'--layer'"),
    (["check", "--hlep"], "'--help'"),
    (["doctor", "--formt", "json"], "'--format'"),
]


@pytest.mark.parametrize(("argv", "name"), TYPOS, ids=[" ".join(argv) for argv, _ in TYPOS])
def test_a_typo_gets_the_nearest_name_without_loading_anything(argv, name):
    last, errors = answer(*argv)
    assert last == "status 2 loaded"
    assert errors.strip().endswith(f"did you mean {name}?")


def test_a_name_near_to_nothing_gets_no_suggestion():
    assert "did you mean" not in k3scope("xyz").stderr
    assert "did you mean" not in k3scope("params", "--qqq").stderr


def test_the_beginning_of_an_option_is_enough():
    assert '"vision_params"' in k3scope("params", "k3-tiny", "--form", "json").stdout


def wait_for(address: str) -> None:
    """Until it answers: the address is printed just before."""
    for _ in range(100):
        try:
            return urlopen(address, timeout=60).close()
        except URLError:
            time.sleep(0.1)
    raise TimeoutError(address)


@pytest.mark.slow
@pytest.mark.browser
def test_the_server_prints_its_address_once(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-u", "-m", "k3scope", "serve", "--no-open", "--port", str(port)]
    command += ["--store", str(tmp_path / "runs.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            first = server.stdout.readline()
            wait_for(first.split()[-1])
        finally:
            server.terminate()
        rest = server.stdout.read()
    assert first == f"k3scope at http://localhost:{port}/\n"
    assert "http" not in rest
