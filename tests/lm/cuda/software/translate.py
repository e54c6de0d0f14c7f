"""Translates the PTX of a kernel to C, and compiles it for this machine.

    python translate.py PTX DIRECTORY COMPILER [-DCOUNT]

Prints the path of the shared library, which stays in DIRECTORY for the next time; see `thread.h` for its interface.
Needs only the standard library, because the driver calls it. Registers are C variables, labels are labels, and
addresses of all kinds of memory are host addresses. An instruction that is not known here is an error.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("thread.h", "operations.h", "translate.py")  # of a compiled kernel
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
REGISTER_TYPES = {"pred": "pred", "b16": "u16", "b32": "u32", "b64": "u64", "f32": "f32", "f64": "f64"}
FLAGS = ("-O1", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-shared", "-fPIC", "-w")
COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="
}  # fmt: skip
UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
SPECIAL = {"%tid": "tid", "%ctaid": "ctaid", "%ntid": "ntid", "%nctaid": "nctaid"}
NOTHING = ("membar", "fence")  # threads run one after the other


class UnknownInstructionError(Exception):
    pass


def size_of(kind: str) -> int:
    return SIZES[kind.lstrip("busf")]


def canonical(ptx: str) -> str:
    """Replace names that depend on the order of compilation, and remove comments."""
    ptx = re.sub(r"//[^\n]*|\0", "", ptx)
    entry = re.search(r"\.entry\s+([\w$]+)", ptx)
    if entry is None:
        raise UnknownInstructionError("no kernel")
    ptx = ptx.replace(entry[1], "kernel")
    for number, name in enumerate(dict.fromkeys(re.findall(r"_cudapy_smem_\d+", ptx))):
        ptx = re.sub(rf"\b{name}(?!\d)", f"shared_{number}", ptx)
    return ptx


class Translator:
    """Translates one module."""

    def __init__(self, ptx: str) -> None:
        self.ptx = ptx
        self.shared: dict[str, int] = {}  # offsets of static arrays
        self.dynamic: set[str] = set()
        self.static_bytes = 0
        self.registers: dict[str, str] = {}
        self.temporaries = 0

    def module(self) -> str:
        """Return the C source."""
        self._declare_shared()
        functions = list(self._functions())
        prototypes = [f"{head};" for head, _, _ in functions]
        bodies = [f"{head} {{\n{self._body(body)}\n}}" for head, _, body in functions]
        (parameters,) = [parameters for head, parameters, _ in functions if head.startswith("static void kernel(")]
        sizes = ", ".join(str(size_of(kind)) for kind, _ in parameters)
        synchronizes = int(bool(re.search(r"\bbar(rier)?\.|cudaCGSynchronize", self.ptx)))
        fields = f"kernel, {len(parameters)}, sizes, {self.static_bytes}, {synchronizes}"
        table = f"static const int sizes[] = {{{sizes}}};\nconst struct kernel translated = {{{fields}}};"
        return "\n".join(['#include "operations.h"', GRID, *prototypes, *bodies, table, ""])

    def _declare_shared(self) -> None:
        pattern = r"\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(\[(\d*)\])?"
        for align, kind, name, is_array, count in re.findall(pattern, self.ptx):
            if is_array and not count:
                self.dynamic.add(name)
                continue
            start = -(-self.static_bytes // int(align)) * int(align)
            self.shared[name] = start
            self.static_bytes = start + int(count or 1) * size_of(kind)
        self.static_bytes = -(-self.static_bytes // 16) * 16

    def _functions(self) -> Iterator[tuple[str, list[tuple[str, str]], str]]:
        """Yield the C head, the parameters (type, name) and the body of each function and of the kernel."""
        pattern = r"\.(entry|func)\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?[^{;]*\{"
        for match in re.finditer(pattern, self.ptx):
            kind, results, name, given = match.groups()
            parameters = _parameters(given or "")
            body = self.ptx[match.end() : _closing_brace(self.ptx, match.end())]
            if kind == "entry":
                loads = [f"u8 *{each} = t->arguments[{i}];" for i, (_, each) in enumerate(parameters)]
                yield f"static void {name}(struct thread *t)", parameters, "".join(loads) + "\0" + body
            else:
                pointers = "".join(f", u8 *{each}" for _, each in _parameters(results or "") + parameters)
                yield f"static void {name}(struct thread *t{pointers})", parameters, "\0" + body

    def _body(self, body: str) -> str:
        head, body = body.split("\0")
        lines = [head]
        block: list[str] = []  # instructions since the last label or branch
        self.registers = {}
        for statement in _statements(body):
            if statement in "{}" or statement.endswith(":"):
                lines += [*_counted(block), statement.replace("$", "_") + (";" if statement.endswith(":") else "")]
                block = []
            elif statement.startswith("."):
                declared = self._declaration(statement)
                (block if block else lines).append(declared)
            else:
                block.append(self._instruction(statement))
                if re.match(r"(@!?%\w+\s+)?(bra|ret|exit|call)", statement):
                    lines += _counted(block)
                    block = []
        return "\n".join(lines + _counted(block))

    def _declaration(self, statement: str) -> str:
        if statement.startswith(".reg"):
            match = re.match(r"\.reg\s+\.(\w+)\s+(.*)", statement, re.S)
            assert match
            kind, names = REGISTER_TYPES[match[1]], list[str]()
            for name in re.split(r"\s*,\s*", match[2].strip()):
                several = re.match(r"(%[\w$]+)<(\d+)>", name)
                names += [f"{several[1]}{i}" for i in range(int(several[2]))] if several else [name]
            self.registers |= dict.fromkeys(names, kind)
            return f"{kind} {', '.join(_variable(name) for name in names)};"
        if match := re.match(r"\.(?:param|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?", statement):
            size = size_of(match[2]) * int(match[4] or 1)
            return f"u8 {match[3]}[{size}] __attribute__((aligned({match[1] or 8})));"
        if statement.startswith((".shared", ".loc", ".pragma")):
            return ""
        raise UnknownInstructionError(statement)

    # --- operands -------------------------------------------------------------------------------------

    def _value(self, operand: str, kind: str) -> str:
        """Return an operand as a C expression of type `kind`."""
        operand = operand.strip()
        if operand in self.registers:
            return _as(_variable(operand), self.registers[operand], kind)
        if operand.startswith("!"):
            return f"!{self._value(operand[1:], kind)}"
        if match := re.match(r"(%\w+)\.([xyz])$", operand):
            return f"({kind})t->{SPECIAL[match[1]]}[{'xyz'.index(match[2])}]"
        if operand == "%dynamic_smem_size":
            return f"({kind})t->dynamic_bytes"
        if match := re.match(r"0[fF]([0-9a-fA-F]{8})$", operand):
            return _as(f"f32_of(0x{match[1]}u)", "f32", kind)
        if match := re.match(r"0[dD]([0-9a-fA-F]{16})$", operand):
            return _as(f"f64_of(0x{match[1]}u)", "f64", kind)
        if re.match(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$", operand):
            number = int(operand.rstrip("U"), 0) % 2**64
            return f"({kind}){number}u" if kind[0] != "f" else f"({kind}){operand}"
        return f"({kind}){self._address(operand)}"

    def _address(self, name: str) -> str:
        if name in self.shared:
            return f"(u64)(t->shared + {self.shared[name]})"
        if name in self.dynamic:
            return f"(u64)(t->shared + {self.static_bytes})"
        return f"(u64){name}"  # a parameter or a local array

    def _memory(self, operand: str) -> str:
        match = re.match(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]$", operand.strip())
        if match is None:
            raise UnknownInstructionError(operand)
        base, offset = match[1], int(match[2] or "0", 0)
        address = self._value(base, "u64") if base in self.registers else self._address(base)
        return f"({address} + {offset})" if offset else address

    def _assign(self, target: str, expression: str, kind: str) -> str:
        target = target.strip()
        if target == "_":
            return f"{expression};"
        to = self.registers[target]
        if kind[0] == "s" and to[0] == "u":  # sign extension into a wider register
            return f"{_variable(target)} = ({to})(s{8 * size_of(to)})({expression});"
        return f"{_variable(target)} = {_as(f'({expression})', kind, to)};"

    # --- instructions ---------------------------------------------------------------------------------

    def _instruction(self, statement: str) -> str:
        condition = ""
        if match := re.match(r"@(!?)(%[\w$]+)\s+", statement):
            condition = f"if ({match[1]}{_variable(match[2])}) "
            statement = statement[match.end() :]
        name, _, rest = statement.partition(" ")
        operands = _split(rest)
        parts = name.split(".")
        rule: Callable[[list[str], list[str]], str] = getattr(self, f"_{parts[0]}", self._arithmetic)
        try:
            translated = rule(parts, operands)
        except (KeyError, IndexError, ValueError) as error:
            raise UnknownInstructionError(f"{statement}: {error!r}") from error
        return f"{condition}{{ {translated} }}" if condition else translated

    def _bra(self, parts: list[str], operands: list[str]) -> str:
        return f"goto {operands[0].replace('$', '_')};"

    def _ret(self, parts: list[str], operands: list[str]) -> str:
        return "return;"

    _exit = _ret

    def _bar(self, parts: list[str], operands: list[str]) -> str:
        if parts[1] != "sync" or operands != ["0"]:
            raise UnknownInstructionError(".".join(parts))
        return "t->barrier(t);"

    _barrier = _bar

    def _call(self, parts: list[str], operands: list[str]) -> str:
        results = [each for each in operands if each.startswith("(")]
        (name,) = [each for each in operands if not each.startswith("(")]
        arguments = [name for group in results for name in _split(group.strip("()"))]
        return f"{name}({', '.join(['t', *arguments])});"

    def _ld(self, parts: list[str], operands: list[str]) -> str:
        kind, targets = parts[-1], _vector(operands[0])
        address, size = self._memory(operands[1]), size_of(parts[-1])
        loads = [
            self._assign(target, f"LOAD({kind}, {address} + {i * size})", kind) for i, target in enumerate(targets)
        ]
        return " ".join(loads)

    def _st(self, parts: list[str], operands: list[str]) -> str:
        kind, address = parts[-1], self._memory(operands[0])
        values = _vector(operands[1])
        return " ".join(
            f"STORE({kind}, {address} + {i * size_of(kind)}, {self._value(value, kind)});"
            for i, value in enumerate(values)
        )

    def _atom(self, parts: list[str], operands: list[str]) -> str:
        kind = parts[-1]
        (action,) = [part for part in parts if part in ("add", "min", "max", "exch", "cas", "and", "or", "xor")]
        address, value = self._memory(operands[1]), self._value(operands[2], kind)
        new = {
            "add": f"old + {value}", "exch": value, "and": f"old & {value}", "or": f"old | {value}",
            "xor": f"old ^ {value}", "min": f"old < {value} ? old : {value}", "max": f"old > {value} ? old : {value}",
        }  # fmt: skip
        if action == "cas":
            new["cas"] = f"old == {value} ? {self._value(operands[3], kind)} : old"
        return self._assign(operands[0], f"ATOMIC({kind}, {address}, old, {new[action]})", kind)

    def _red(self, parts: list[str], operands: list[str]) -> str:
        return self._atom(parts, ["_", *operands])

    def _mov(self, parts: list[str], operands: list[str]) -> str:
        kind, (target, source) = parts[1], operands
        if target.startswith("{"):
            low, high = _vector(target)
            half = f"u{4 * size_of(kind)}"
            whole, self.temporaries = f"whole{self.temporaries}", self.temporaries + 1
            value = self._value(source, kind)
            return f"{{ {kind} {whole} = {value}; " + " ".join(
                self._assign(each, f"({half})({whole} >> {shift})", half)
                for each, shift in ((low, 0), (high, 4 * size_of(kind)))
            ) + " }"  # fmt: skip
        if source.startswith("{"):
            low, high = (self._value(each, f"u{4 * size_of(kind)}") for each in _vector(source))
            return self._assign(target, f"({kind}){low} | ({kind}){high} << {4 * size_of(kind)}", kind)
        return self._assign(target, self._value(source, kind), kind)

    def _cvta(self, parts: list[str], operands: list[str]) -> str:
        return self._assign(operands[0], self._value(operands[1], "u64"), "u64")

    def _setp(self, parts: list[str], operands: list[str]) -> str:
        kind, comparison = parts[-1], parts[1]
        a, b = self._value(operands[1], kind), self._value(operands[2], kind)
        if comparison in UNORDERED:
            result = f"({a} != {a} || {b} != {b} || {a} {UNORDERED[comparison]} {b})"
        elif comparison in ("nan", "num"):
            result = f"{'' if comparison == 'nan' else '!'}({a} != {a} || {b} != {b})"
        elif comparison == "ne" and kind[0] == "f":
            result = f"({a} < {b} || {a} > {b})"
        else:
            result = f"({a} {COMPARISONS[comparison]} {b})"
        if parts[2] in ("and", "or", "xor"):
            logical = {"and": "&", "or": "|", "xor": "^"}[parts[2]]
            result += f" {logical} {self._value(operands[3], 'pred')}"
        return self._assign(operands[0], result, "pred")

    def _selp(self, parts: list[str], operands: list[str]) -> str:
        kind = parts[-1]
        a, b = self._value(operands[1], kind), self._value(operands[2], kind)
        return self._assign(operands[0], f"{self._value(operands[3], 'pred')} ? {a} : {b}", kind)

    def _cvt(self, parts: list[str], operands: list[str]) -> str:
        to, kind = parts[-2:]
        rounding = next((part for part in parts[1:-2] if part != "sat"), "")
        value = self._value(operands[1], kind)
        if kind[0] == "f":
            suffix = "f" if kind == "f32" else ""
            whole = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
            if rounding in whole:
                value = f"{whole[rounding]}{suffix}({value})"
            elif rounding not in ("", "rn"):
                raise UnknownInstructionError(".".join(parts))
            value = f"to_{to}({value})" if to[0] != "f" else f"({to}){value}"
        elif rounding not in ("", "rn"):
            raise UnknownInstructionError(".".join(parts))
        if "sat" in parts:
            if to != "f32":
                raise UnknownInstructionError(".".join(parts))
            value = f"sat({value})"
        return self._assign(operands[0], f"({to}){value}", to)

    def _arithmetic(self, parts: list[str], operands: list[str]) -> str:
        name, kind, modes = parts[0], parts[-1], parts[1:-1]
        if name in NOTHING:
            return ";"
        if name in ("shl", "shr"):
            to = kind if kind[0] == "s" else kind.replace("u", "b")
            value = f"{name}_{to}({self._value(operands[1], kind)}, {self._value(operands[2], 'u32')})"
            return self._assign(operands[0], value, kind)
        wide = f"{kind[0]}{16 * size_of(kind)}" if "wide" in modes else kind
        types = [kind, kind, wide] if name in ("mad", "mul") else [kind] * 3
        values = [self._value(operand, each) for operand, each in zip(operands[1:], types, strict=False)]
        expression = _expression(name, kind, modes, wide, values)
        if "sat" in modes:
            expression = f"sat({expression})"
        return self._assign(operands[0], expression, wide)


GRID = """
static void cudaCGGetIntrinsicHandle(struct thread *t, u8 *result, u8 *kind) { STORE(u64, result, 1); }
static void cudaCGSynchronize(struct thread *t, u8 *result, u8 *handle, u8 *flags) {
  t->grid_barrier(t);
  STORE(u32, result, 0);
}
"""


def _expression(name: str, kind: str, modes: list[str], wide: str, values: list[str]) -> str:
    """Return the C expression of an arithmetic instruction."""
    a, b, c = (*values, "", "")[:3]
    floating, suffix = kind[0] == "f", "f" if kind == "f32" else ""
    special = "_".join([name, *modes, kind])
    if special in SPECIAL_ROUNDING:
        return f"{special}({', '.join(values)})"
    rounding = [mode for mode in modes if mode not in ("rn", "lo", "hi", "wide", "sat", "uni")]
    if rounding:
        raise UnknownInstructionError(".".join([name, *modes, kind]))
    product = f"mulhi_{kind}({a}, {b})" if "hi" in modes else f"({wide}){a} * ({wide}){b}"
    logical = {"and": "&", "or": "|", "xor": "^", "add": "+", "sub": "-"}
    if name in logical:
        return f"{a} {logical[name]} {b}"
    unary = {"neg": f"-{a}", "abs": f"fabs{suffix}({a})" if floating else f"({a} < 0 ? -{a} : {a})"}
    unary |= {"not": f"!{a}" if kind == "pred" else f"~{a}", "sqrt": f"sqrt{suffix}({a})", "rcp": f"1 / {a}"}
    unary |= {"popc": f"__builtin_popcountll({a})"}
    if name in unary:
        return unary[name]
    if name in ("min", "max"):
        return f"f{name}{suffix}({a}, {b})" if floating else f"({a} {'<' if name == 'min' else '>'} {b} ? {a} : {b})"
    if name == "copysign":
        return f"copysign{suffix}({b}, {a})"
    if name == "fma" or (name == "mad" and floating):
        return f"fma{suffix}({a}, {b}, {c})"
    if name == "mul":
        return product
    if name == "mad":
        return f"{product} + {c}"
    if name in ("div", "rem"):
        return f"{a} / {b}" if floating and name == "div" else f"{name}_{kind}({a}, {b})"
    raise UnknownInstructionError(".".join([name, *modes, kind]))


SPECIAL_ROUNDING = {
    "ex2_approx_ftz_f32", "lg2_approx_ftz_f32", "rcp_approx_ftz_f32", "rcp_approx_ftz_f64", "fma_rm_f32", "add_rz_f32"
}  # fmt: skip


# --- the syntax of PTX ------------------------------------------------------------------------------------


def _statements(body: str) -> Iterator[str]:
    """Yield braces of scopes, labels with their colons, and statements without semicolons, on one line each."""
    at = 0
    while match := re.compile(r"\s*([{}]|[\w$]+:|[^;{}]*(?:\{[^}]*\}[^;{}]*)*;)").match(body, at):
        yield " ".join(match[1].rstrip(";").split())
        at = match.end()
    if body[at:].strip():
        raise UnknownInstructionError(body[at : at + 80])


def _split(text: str) -> list[str]:
    """Split operands at commas outside of brackets."""
    return [each.strip() for each in re.split(r",(?![^(\[{]*[)\]}])", text) if each.strip()]


def _vector(operand: str) -> list[str]:
    return _split(operand.strip("{} ")) if operand.startswith("{") else [operand]


def _parameters(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)", text)


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    raise UnknownInstructionError("a brace is missing")


def _variable(register: str) -> str:
    return "r_" + register.lstrip("%").replace("$", "_")


def _as(expression: str, kind: str, to: str) -> str:
    """Convert between registers and types of instructions: bits are kept, unless the number of bits differs."""
    if kind == to:
        return expression
    if kind[0] == "f":
        bits = f"bits_{kind}({expression})"
        return f"({to}){bits}" if to[0] != "f" else f"{to}_of({bits})"
    return f"{to}_of({expression})" if to[0] == "f" else f"({to}){expression}"


def _counted(block: list[str]) -> list[str]:
    """Count the instructions of a straight piece of code before it runs."""
    instructions = [line for line in block if line and not re.match(r"\w+ r_|u8 ", line)]
    if not instructions:
        return block
    multiply_adds = sum("fma" in line for line in instructions)
    memory = sum(len(re.findall(r"LOAD|STORE|ATOMIC", line)) for line in instructions if "param" not in line)
    declarations = [line for line in block if line not in instructions]
    return [*declarations, f"EXECUTED({len(instructions)}, {multiply_adds}, {memory});", *instructions]


# --- compiling --------------------------------------------------------------------------------------------


def library(source: Path, directory: Path, compiler: str, *options: str) -> Path:
    """Return the compiled kernel, made unless it exists."""
    ptx = canonical(source.read_text(encoding="ascii"))
    headers = [(HERE / name).read_bytes() for name in SOURCES]
    digest = hashlib.sha256(b"\0".join([ptx.encode(), compiler.encode(), *map(str.encode, options), *headers]))
    path = directory / f"{digest.hexdigest()[:32]}.so"
    if path.exists():
        return path
    translated = Translator(ptx).module()
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        c, made = Path(temporary) / "kernel.c", Path(temporary) / "kernel.so"
        c.write_text(translated, encoding="ascii")
        subprocess.run([compiler, *FLAGS, *options, f"-I{HERE}", "-o", made, c, "-lm"], check=True)
        os.replace(made, path)
    return path


if __name__ == "__main__":
    print(library(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
