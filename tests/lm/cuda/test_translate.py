"""The translation of PTX to C for the software GPU: instructions whose meaning differs from C's."""

import ctypes
import math
from pathlib import Path

import numpy as np
import pytest

from tests.lm.cuda.software.build import COMPILER, missing
from tests.lm.cuda.software.translate import UnknownInstructionError, library

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

NAN, INFINITY = "0f7FC00000", "0f7F800000"
HEAD = """.version 9.0
.visible .entry made_by_hand_17(.param .u64 made_by_hand_17_param_0)
{
  .reg .pred %p<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b32 %t<3>;
  ld.param.u64 %rd1, [made_by_hand_17_param_0];
"""
# Instructions that leave a result in a register, and its value.
CASES = {
    "shl.b32 %r1, 1, 32;": ("r1", 0),
    "shr.s32 %r1, -8, 40;": ("r1", -1),
    "shr.u32 %r1, -8, 31;": ("r1", 1),
    "div.s64 %rd2, -7, 2;": ("rd2", -3),
    "rem.s64 %rd2, -7, 2;": ("rd2", -1),
    "mul.wide.s32 %rd2, -2, 2147483647;": ("rd2", -2 * (2**31 - 1)),
    "mul.hi.u64 %rd2, -1, 3;": ("rd2", 2),
    "mov.u32 %r1, -5; cvt.s64.s32 %rd2, %r1;": ("rd2", -5),
    "mov.u32 %r1, -5; cvt.u64.u32 %rd2, %r1;": ("rd2", 2**32 - 5),
    "cvt.rzi.s32.f32 %r1, 0f4F800000;": ("r1", 2**31 - 1),  # 2^32
    f"cvt.rzi.s32.f32 %r1, {NAN};": ("r1", 0),
    f"setp.ne.f32 %p1, {NAN}, 0f00000000; selp.b32 %r1, 1, 0, %p1;": ("r1", 0),
    f"setp.neu.f32 %p1, {NAN}, 0f00000000; selp.b32 %r1, 1, 0, %p1;": ("r1", 1),
    "setp.lt.u32 %p1, -1, 1; selp.b32 %r1, 1, 0, %p1;": ("r1", 0),
    "setp.lt.s32 %p1, -1, 1; selp.b32 %r1, 1, 0, %p1;": ("r1", 1),
    f"max.f32 %f1, {NAN}, 0f3F800000;": ("f1", 1.0),
    "copysign.f32 %f1, 0fBF800000, 0f40000000;": ("f1", -2.0),
    "cvt.sat.f32.f32 %f1, 0f40000000;": ("f1", 1.0),
    f"cvt.sat.f32.f32 %f1, {NAN};": ("f1", 0.0),
    "fma.rm.f32 %f1, 0fBF800000, 0f2F800000, 0f3F800000;": ("f1", 1 - 2.0**-24),  # 1 − 2^-32, rounded down
    "add.rz.f32 %f1, 0f3F800000, 0f33C00000;": ("f1", 1.0),  # 1 + 1.5 · 2^-24, rounded toward zero
    "fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002;": ("f1", 2.0**-46),  # rounded once
    "ex2.approx.ftz.f32 %f1, 0fC3000000;": ("f1", 0.0),  # 2^-128 is subnormal
    "rcp.rn.f32 %f1, 0f00000000;": ("f1", math.inf),
    "mov.b64 %rd2, 0d3FF0000000000000; mov.b64 {%t1, %t2}, %rd2; mov.b32 %r1, %t2;": ("r1", 0x3FF00000),
    "mov.b32 %r1, 0f3F800000;": ("r1", 0x3F800000),
}  # fmt: skip
SIZES = {"r": ("b32", np.int32), "rd": ("b64", np.int64), "f": ("f32", np.float32)}


class Thread(ctypes.Structure):
    _fields_ = (
        ("ids", ctypes.c_uint32 * 12), ("dynamic_bytes", ctypes.c_uint32), ("shared", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p), ("counts", ctypes.c_void_p), ("barriers", ctypes.c_void_p * 2),
    )  # fmt: skip


class Kernel(ctypes.Structure):
    _fields_ = (("run", ctypes.CFUNCTYPE(None, ctypes.POINTER(Thread))), ("parameters", ctypes.c_int))


def run(instructions: str, result: str, directory: Path) -> np.generic:
    kind, dtype = SIZES[result.rstrip("0123456789")]
    source = directory / "kernel.ptx"
    source.write_text(f"{HEAD}{instructions}\nst.global.{kind} [%rd1], %{result};\nret;\n}}\n", encoding="ascii")
    assert COMPILER
    made = Kernel.in_dll(ctypes.CDLL(str(library(source, directory, COMPILER))), "translated")
    assert made.parameters == 1
    out = np.zeros(1, dtype)
    pointer = ctypes.c_uint64(out.ctypes.data)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    made.run(ctypes.byref(Thread(arguments=ctypes.addressof(arguments))))
    return out[0]


@pytest.mark.parametrize("instructions", CASES)
def test_instructions(instructions: str, tmp_path: Path) -> None:
    result, expected = CASES[instructions]
    assert run(instructions, result, tmp_path) == expected


def test_an_unknown_instruction_is_an_error(tmp_path: Path) -> None:
    for unknown in ("shfl.sync.down.b32 %r1, %r2, 1, 31, -1;", "bfe.u32 %r1, %r2, 1, 2;", "add.rm.f32 %f1, %f2, %f3;"):
        with pytest.raises(UnknownInstructionError):
            run(unknown, "r1", tmp_path)
