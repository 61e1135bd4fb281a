#!/bin/sh
# Sends random requests, made from the document of the API, to a real server of a repository with runs:
#
#   fuzz.sh AYNIG ST
#
# ST is the program of schemathesis. No answer may be an error of the server (5xx) or one that the
# document does not allow. Three rounds: any ids, those of a graph, those of a flow.
set -eu

[ $# -eq 2 ] || { echo 'usage: fuzz.sh AYNIG ST' >&2; exit 2; }
st=$2
. "$(dirname "$0")/../served.sh"
served "$1"
url=$(sed 's|/#.*||' "$directory/link")
token=$(python3 -c '
import json, sys
print(json.load(open(sys.argv[1]))["token"])' .git/aynig/data/serve.json)
id() { # KIND LABEL: the id of a run
    curl -sS -H "Authorization: Bearer $token" "$url/api/runs" | python3 -c '
import json, sys
runs = json.load(sys.stdin)["runs"]
print(next(run["id"] for run in runs if run["kind"] == sys.argv[1] and sys.argv[2] in run["label"]))' "$1" "$2"
}

fuzz() { # NAME OPTION...: a round
    echo "fuzz.sh: $1" >&2
    shift
    # Sessions end, streams stay open, and a run that is gone shows nothing more.
    (cd "$directory" && "$st" run "$url/api/openapi.json" --header "Authorization: Bearer $token" --seed 1 \
        --max-examples 15 --phases coverage,fuzzing --no-color --exclude-path-regex 'session|stream' \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        "$@") >"$directory/out" 2>&1 || { cat "$directory/out" >&2; exit 1; }
    grep 'generated' "$directory/out"
}
graph=$(id graph greeting) flow=$(id flow '')
fuzz 'any ids'
set -- --exclude-method DELETE --exclude-path-regex 'session|stream|/stop$'
printf '[parameters]\n"path.id" = "%s"\n"path.node" = "ada"\n"query.node" = "ada"\n' "$graph" >"$directory/schemathesis.toml"
fuzz 'a graph' "$@"
printf '[parameters]\n"path.id" = "%s"\n' "$flow" >"$directory/schemathesis.toml"
fuzz 'a flow' "$@"
kill "$server"
wait "$server"
server=''
