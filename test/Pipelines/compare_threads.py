"""usage: compare_threads.py MOE_OPT MOE_TRANSLATE MODEL...

Schedules each model several times with and without threads and compares
all that comes out."""

import pathlib
import subprocess
import sys
import tempfile

RUNS = 5


def schedule(opt, translate, model, folder, flags):
    report, step = folder / "report.json", folder / "step.mlir"
    subprocess.run(
        [opt, "--overlap-ep", "--recompute=moe,norm", f"--report={report}"]
        + flags
        + [model, "-o", step],
        check=True,
        stderr=(folder / "text").open("w"),
    )
    table = subprocess.run(
        [translate, "--export-json", step] + flags, check=True, capture_output=True
    )
    return {
        "IR": step.read_bytes(),
        "report": report.read_bytes(),
        "text": (folder / "text").read_bytes(),
        "export": table.stdout,
    }


def main():
    opt, translate, *models = sys.argv[1:]
    for model in models:
        first = None
        for run in range(2 * RUNS):
            flags = ["--mlir-disable-threading"] if run % 2 else []
            with tempfile.TemporaryDirectory() as folder:
                outputs = schedule(opt, translate, model, pathlib.Path(folder), flags)
            first = first or outputs
            for name, data in outputs.items():
                if not data or data != first[name]:
                    sys.exit(f"{model}: run {run}, flags {flags}: {name} differs")
        size = sum(map(len, first.values()))
        name = pathlib.Path(model).name
        print(
            f"{name}: {RUNS} runs with threads and {RUNS} without write "
            f"the same {size} bytes"
        )


if __name__ == "__main__":
    main()
