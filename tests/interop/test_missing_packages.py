"""Without the package that an export needs: one sentence, and nothing written."""

import os
import subprocess
import sys

import pytest

from tests.conftest import Neglm, one_sentence, users_environment
from tests.interop.making import train

WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from neglm_cli.__main__ import main; main()"


@pytest.mark.parametrize(("package", "options"), [("onnx", ()), ("onnxruntime", ("--int8",))])
def test_onnx(neglm: Neglm, package: str, options: tuple[str, ...]) -> None:
    train(neglm, "neg")
    before = sorted(os.listdir())
    command = [sys.executable, "-c", WITHOUT, package, "export", "--onnx", "lm.onnx", "--quiet", *options]
    done = subprocess.run(command, capture_output=True, env=users_environment())
    assert done.returncode == 1
    assert "pip install 'neglm[onnx]'" in one_sentence(done.stderr)
    assert sorted(os.listdir()) == before
