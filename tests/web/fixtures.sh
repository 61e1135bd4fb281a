#!/bin/sh
# Makes the fixtures of the dashboard's tests with the real program:
#
#   fixtures.sh AYNIG DIRECTORY [OUT]
#
# DIRECTORY is a new directory for a repository with runs. Each run gets NAME.events.jsonl (its
# journal) and NAME.state.json (`orch show`) in OUT, which is fixtures/ unless it is given.
set -eu

aynig=$1 repo=$2
here=$(cd "$(dirname "$0")" && pwd)
out=${3:-$here/fixtures}
mkdir -p "$out"
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TZ=UTC XDG_STATE_HOME="$repo.state"

git init --quiet --initial-branch=main "$repo"
cd "$repo"
cp "$here/agent.py" .git/agent.py
git config user.name Ana
git config user.email ana@example.com
git config aynig.approvalWaitSeconds 0
git config aynig.retryPause 0s
git config aynig.validator.tests true
for name in scripted silent; do
    git config aynig.provider.$name.kind custom
    git config aynig.provider.$name.command "$repo/.git/agent.py"
    git config aynig.provider.$name.protocol jsonl
done
mkdir -p .aynig/command
printf '# Greeting\n\nHello.\n' >README.md
cp "$here/fixtures/gate.yaml" gate.yaml
git add --all
git commit --quiet -m 'A small project'

create() { "$aynig" orch run create "$@" | cut -d' ' -f1; }
node() { "$aynig" orch node add "$@" --provider scripted >/dev/null; }
chat() { "$aynig" orch chat "$@" >/dev/null; }
drain() { "$aynig" run --drain --jobs 1 >&2 || true; }
answer() { # VERB RUN-SLUG …: answers the oldest request of the run
    verb=$1 slug=$2
    shift 2
    id=$("$aynig" orch approvals --json | python3 -c '
import json, sys
print(next(one["id"] for one in json.load(sys.stdin)["approvals"] if one["slug"] == sys.argv[1]))' "$slug")
    "$aynig" orch "$verb" "$id" "$@" >/dev/null
}
keep() { # NAME SLUG
    "$aynig" orch events "$2" --json >"$out/$1.events.jsonl"
    "$aynig" orch show "$2" --json >"$out/$1.state.json"
}

# Thinking, tools, requests with each answer, a hand-off, and a request that is open at the end.
pair=$(create --label 'The greeting')
node "$pair" ada --role implementer --permissions gated
node "$pair" rex --role reviewer --permissions skip
"$aynig" orch edge add "$pair" ada rex >/dev/null
chat "$pair" ada 'ask: write greeting.txt and run the tests'
drain
answer approve "$pair"
drain
chat "$pair" ada 'ask: delete the old files'
drain
answer deny "$pair" --reason 'keep them until the release'
drain
chat "$pair" ada 'ask: install the packages'
drain
answer approve "$pair" --args '{"command":"npm ci"}' 
drain
chat "$pair" ada 'handoff: rex'
drain
chat "$pair" ada 'ask: push the branch'
drain
chat "$pair" rex 'read this while ada waits'
keep pair "$pair"

# An orchestrator that spawns a node; modes, pauses, removals, a reset, and the end.
team=$(create --label 'A team' --limit turns=9 --limit costUsd=4)
node "$team" lead --role orchestrator --permissions skip
"$aynig" orch node set "$team" lead --management-approval false >/dev/null
node "$team" ben --role implementer --permissions skip
node "$team" cleo --role tester --permissions skip
"$aynig" orch edge add "$team" lead ben >/dev/null
"$aynig" orch edge add "$team" ben cleo >/dev/null
"$aynig" orch run set "$team" --global-mode PLANNING >/dev/null
chat "$team" ben 'hello'
drain
"$aynig" orch run set "$team" --global-mode IMPLEMENTATION >/dev/null
"$aynig" orch run pause "$team" >/dev/null
chat "$team" lead 'spawn: dora'
"$aynig" orch run resume "$team" >/dev/null
drain
"$aynig" orch node set "$team" ben --label 'Ben, who builds' --limit turns=5 >/dev/null
"$aynig" orch node stop "$team" ben >/dev/null
"$aynig" orch node start "$team" ben >/dev/null
"$aynig" orch node reset "$team" ben >/dev/null
edge=$("$aynig" orch show "$team" --json | python3 -c '
import json, sys
print(next(iter(json.load(sys.stdin)["run"]["edges"])))')
"$aynig" orch edge remove "$team" "$edge" >/dev/null
"$aynig" orch node remove "$team" cleo >/dev/null
"$aynig" orch run complete "$team" >/dev/null
keep team "$team"

# Equal answers until loop safety pauses the run.
loop=$(create --label 'Round and round')
node "$loop" sam --role implementer --permissions skip
node "$loop" tom --role reviewer --permissions skip
"$aynig" orch edge add "$loop" sam tom >/dev/null
chat "$loop" sam 'ring'
for _ in 1 2 3 4 5 6; do drain; done
keep loop "$loop"

# A program that fails, with terminal colours in what it prints.
failed=$(create --label 'It does not build')
node "$failed" eve --role implementer --permissions skip
chat "$failed" eve 'fail'
drain
sleep 1
drain
drain
keep failed "$failed"

# A flow that waits at its gate.
flow=$("$aynig" flow start gate.yaml --input issue='Say good morning' | head -1 | cut -d' ' -f1)
drain
keep flow "$flow"

# A branch that waits for somebody, without a run.
git branch release
"$aynig" set-state --branch release --state approval --subject 'May version 2 go out?' \
    --body 'The notes are in README.md.' --trailer 'dwp-waits-for: ana' \
    --trailer 'dwp-answers: approved, rejected' >/dev/null

for view in "status --all" "orch approvals" "provider list" "orch template list"; do
    # shellcheck disable=SC2086
    "$aynig" $view --json >"$out/$(echo "$view" | tr -d ' -').json"
done
"$aynig" orch template show reviewer --json >"$out/template.json"
"$aynig" flow show "$flow" --json >"$out/flowshow.json"
"$aynig" flow graph "$flow" --format json >"$out/flowgraph.json"
python3 - "$out" "$repo" "$aynig" <<'END'
import os, pathlib, sys
# Fixtures are the same wherever they are made.
for path in pathlib.Path(sys.argv[1]).glob("*.json*"):
    path.write_text(path.read_text().replace(sys.argv[2], "/repository").replace(sys.argv[3], "aynig").replace(os.environ["HOME"], "/home"))
END
