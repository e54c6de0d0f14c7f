"""The process that commands are forked from: started by warm.py, controlled through a socket."""

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from typing import Any

import neglm_cli
from neglm_cli.__main__ import main as run_neglm
from neglm_cli.cli.app import app
from neglm_cli.cli.main import COMMANDS
from neglm_cli.kernels import cache
from neglm_cli.kernels.dispatch import load_compiled

OTHERS = (  # imported by commands, inside functions
    "matplotlib.backends.backend_svg", "matplotlib.figure", "mmap", "typer._click.decorators", "typer.rich_utils",
)  # fmt: skip
CUDA = "neglm_cli.lm.cuda"
OPTIONAL = (  # imported only with the package onnx, or in processes that compile
    "neglm_cli.interop.onnx_graph", "neglm_cli.kernels.numba_options", "neglm_cli.kernels.entry",
    "neglm_cli.kernels.compile",
)  # fmt: skip


def import_all(for_gpu: bool = False) -> None:
    """Import all modules. for_gpu: those that commands import on a GPU, too."""
    for module in pkgutil.walk_packages(neglm_cli.__path__, "neglm_cli."):
        if not module.name.startswith(OPTIONAL if for_gpu else (*OPTIONAL, CUDA)):
            importlib.import_module(module.name)
    for name in OTHERS:
        importlib.import_module(name)


class Kernels:
    """Loads compiled kernels from disk, which takes part of the time of a short command."""

    def __init__(self) -> None:
        self._seen = 0

    def load_new(self) -> None:
        directory = cache.kernel_directory()
        if directory and os.stat(directory).st_mtime_ns != self._seen:
            self._seen = os.stat(directory).st_mtime_ns
            load_compiled()


def keep_command(name: str) -> None:
    """Remove all other subcommands: `main` imports only the one that it runs, and Typer describes all it has."""
    if name in COMMANDS:
        app.registered_commands = [command for command in app.registered_commands if command.name == name]


def become_neglm(
    directory: str,
    arguments: list[str],
    seconds: int,
    fault: tuple[str, int] | None,
    variables: dict[str, str],
    pipes: list[int],
) -> None:
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    signal.alarm(seconds)
    os.chdir(directory)
    os.environ.update(variables)
    keep_command(arguments[0] if arguments else "")
    sys.argv = ["neglm", *arguments]
    if fault is not None:
        ctypes.CDLL(None).fault_arm(fault[0].encode(), fault[1])
    run_neglm()


def answer(code: int, fault: tuple[str, int] | None) -> list[Any]:
    """Return the exit code, the number of system calls, and the name of the one that failed (faults/shim.c)."""
    if fault is None:
        return [code, 0, ""]
    shim = ctypes.CDLL(None)
    shim.fault_kind.restype = ctypes.c_char_p
    return [code, shim.fault_calls(), shim.fault_kind().decode()]


def serve(asked: socket.socket, largest: int, for_gpu: bool) -> None:
    """Run commands in sequence, and reply with their exit codes."""
    import_all(for_gpu)
    kernels = Kernels()
    while True:
        kernels.load_new()
        gc.freeze()
        message, pipes, _, _ = socket.recv_fds(asked, largest, 3)
        if not message:
            return
        child = os.fork()
        if child == 0:
            asked.close()
            directory, arguments, seconds, fault, variables = json.loads(message)
            become_neglm(directory, arguments, seconds, fault, variables, pipes)
        for pipe in pipes:
            os.close(pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asked.send(json.dumps(answer(code, json.loads(message)[3])).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), for_gpu="gpu" in sys.argv[3:])
