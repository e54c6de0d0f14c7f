"""Record golden results, or compare a tree with recorded ones.

    python -m tests.golden record FILE [--tree DIR]         train all cases with the code in DIR, and record them
    python -m tests.golden compare FILE [--tree DIR]        the same machine: every tensor has the same bytes
    python -m tests.golden compare FILE --tolerance 1e-3    another machine: tensors agree within rounding

`--only TEXT` runs the cases whose names contain TEXT. Tensors are compared by their bytes, not by their names, so that
files may rename them. `tests/golden/*.json` are the results of commit 80120e2, by CPU type.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.golden.cases import CASES
from tests.golden.fingerprint import differences
from tests.golden.run import machine, run_case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="The source tree to run.")
    parser.add_argument("--tolerance", type=float, help="Maximum difference, as a fraction of a tensor's norm.")
    parser.add_argument("--only", default="", help="Run only cases whose names contain this text.")
    given = parser.parse_args()
    recorded = {} if given.action == "record" else json.loads(given.file.read_text())["results"]
    results, differing = {}, 0
    for case in CASES:
        if given.only not in case.name:
            continue
        with tempfile.TemporaryDirectory(prefix="neglm-golden-") as directory:
            result = results[case.name] = run_case(case, Path(directory), given.tree.resolve())
        found = differences(recorded[case.name], result, given.tolerance) if recorded else []
        differing += bool(found)
        print(f"{'DIFFERS' if found else 'ok':<8}{case.name}", *found, sep="\n        ", flush=True)
    if given.action == "record":
        given.file.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    print(f"{len(results) - differing} of {len(results)} cases {'agree' if recorded else 'recorded'}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
