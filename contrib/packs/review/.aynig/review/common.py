"""Shared by implement, check and review: settings, the request and the remarks on it, the agent, the next state.

The body of a commit is the request, as the person wrote it; below a line MARK are the remarks of the last round. Each
round passes the request on unchanged. `dwp-round` counts the rounds, and `dwp-base` is the commit that the work began on.
"""

import json
import os
import shlex
import subprocess

SETTINGS = ".aynig/review.json"
MARK = "== What has to be changed =="
LONGEST = 60_000


def settings():
    with open(SETTINGS, encoding="utf-8") as file:
        found = json.load(file)
    # The program comes from the file or from git's configuration, never from the environment: a trailer
    # becomes a variable, and must not choose a program.
    named = subprocess.run(["git", "config", "--get", "review.agent"], stdout=subprocess.PIPE, text=True).stdout.strip()
    if named:
        found["agent"] = shlex.split(named)
    return found


def ask_and_remarks():
    with open(os.environ["BODY_PATH"], encoding="utf-8", errors="replace") as file:
        ask, _, rest = file.read().partition("\n" + MARK + "\n")
    # Remarks are indented. What is below them, and is not, is a person's answer: a part of the request from now on.
    lines = rest.splitlines()
    end = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(" ")), len(lines))
    ask, reply = ask.strip(), "\n".join(lines[end:]).strip()
    return (f"{ask}\n\n{reply}" if reply else ask), "\n".join(lines[:end]).strip()


def number(name, otherwise):
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


def base():
    """The commit that the work began on. The work is the commits above it."""
    named = os.environ.get("DWP_BASE", "")
    if len(named) in (40, 64) and all(c in "0123456789abcdef" for c in named):
        return named
    return os.environ["COMMIT_HASH"]


def agent(part, prompt):
    """Runs the agent with a prompt on its standard input. Logs and returns its output."""
    program = settings()["agent"]
    with open(f".aynig/review/{part}.md", encoding="utf-8") as file:
        prompt = file.read().rstrip() + "\n\n" + prompt
    print(f"{part}: {shlex.join(program)}", flush=True)
    try:
        done = subprocess.run(program, input=prompt, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        # Another host may have it.
        unable = f"the agent {program[0]} cannot be started ({error.strerror}); `git config review.agent PROGRAM` names another"
        print("SET_STATE " + json.dumps({"unable": unable[:300]}), flush=True)
        raise SystemExit(0)
    # A SET_STATE line in its output must not count as ours.
    print("\n".join("| " + line for line in done.stdout.splitlines()), flush=True)
    if done.returncode != 0:
        raise SystemExit(f"the agent ended with {done.returncode}")
    return done.stdout


def go_on(state, subject, ask, remarks="", more=()):
    # The end of long remarks, from the beginning of a line.
    remarks = remarks if len(remarks) <= LONGEST else remarks[-LONGEST:].partition("\n")[2]
    body = f"{ask}\n\n{MARK}\n\n{remarks}" if remarks else ask
    trailers = {"dwp-base": base(), "dwp-round": str(number("DWP_ROUND", 1)), **dict(more)}
    print("SET_STATE " + json.dumps({"state": state, "subject": subject, "body": body, "keep_trailers": True, "trailers": trailers}), flush=True)


def again(who, ask, remarks):
    """Back to implement with remarks, or to a person when the rounds are used up."""
    found, this = settings(), number("DWP_ROUND", 1)
    # Indented, so that no line is parsed as a trailer.
    remarks = "\n".join("    " + line for line in remarks.splitlines())
    if this >= found["rounds"]:
        asks = {"dwp-waits-for": "a person", "dwp-answers": "implement, reviewed"}
        go_on(found["hand_over"], f"{who}: not right after {this} rounds", ask, remarks, asks)
    else:
        go_on("implement", f"{who}: round {this + 1} is needed", ask, remarks, {"dwp-round": str(this + 1)})
