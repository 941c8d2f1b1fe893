"""What the benches share: interleaved rounds, medians, ratios, and what was measured on which machine."""

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def rounds(cases, count, log=None):
    """Times each case `count` times, in turns, so that what disturbs the machine disturbs all of them alike.

    `cases` are functions by their names. Each does its work once; what it returns, if that can be called, cleans up, and is not
    timed. Every second round goes backwards. Returns the seconds of all rounds by name.
    """
    taken = {name: [] for name in cases}
    for number in range(count):
        order = list(cases) if number % 2 == 0 else list(reversed(cases))
        for name in order:
            gc.collect()
            began = time.perf_counter()
            after = cases[name]()
            took = time.perf_counter() - began
            if callable(after):
                after()
            del after
            taken[name].append(took)
            if log:
                print(f"round {number + 1} of {count}: {name}: {took:.3f} s", file=log, flush=True)
    return taken


def compared(taken, name, base):
    """How many times as fast `name` was as `base`: the ratio of the medians, and the least and the greatest of one round."""
    each = [slow / fast for slow, fast in zip(taken[base], taken[name])]
    return {
        "case": name,
        "base": base,
        "ratio": statistics.median(taken[base]) / statistics.median(taken[name]),
        "least": min(each),
        "most": max(each),
    }


def machine():
    """The machine, in words."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cpu}, {cores} cores, {platform.system()} {platform.release()}"


def versions(*packages):
    """The versions of Python and of packages."""
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    found = {"python": platform.python_version() + ("t" if free else "")}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit():
    """The commit of the sources, with a + if they differ from it; None outside a repository."""

    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        short = git("rev-parse", "--short", "HEAD")
        return short and short + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except OSError:
        return None


def report(title, taken, ratios, details, packages, path=None):
    """Prints a small table, and writes everything to a file of JSON if a path is given.

    `details` are functions that turn the median seconds of a case into a speed in words. `ratios` are those of `compared`; one
    with "bar" has a least ratio that it is to reach.
    """
    known = {"machine": machine(), "versions": versions(*packages), "commit": commit()}
    print(title)
    print(f"machine: {known['machine']}")
    print("versions: " + ", ".join(f"{name} {number}" for name, number in known["versions"].items()), f"commit: {known['commit']}", sep="; ")
    width = max(map(len, taken))
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"  {name:{width}}  {median:8.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})  {details(name, median)}")
    for ratio in ratios:
        bar = f"; at least {ratio['bar']:g} is wanted: {'yes' if ratio['ratio'] >= ratio['bar'] else 'NO'}" if "bar" in ratio else ""
        print(f"  {ratio['case']} / {ratio['base']}: {ratio['ratio']:.2f} x ({ratio['least']:.2f} to {ratio['most']:.2f}){bar}")
    if path:
        Path(path).write_text(json.dumps({"title": title, **known, "seconds": taken, "ratios": ratios}, indent=2) + "\n")
