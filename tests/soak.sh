#!/bin/sh
# An hour of traffic for `aynig serve --run`, on real runs with scripted agents:
#
#   MINUTES=60 tests/soak.sh AYNIG
#
# Clients read, write, stream, leave in the middle and come again, while agents work. Every minute the
# memory and the open files of the server are printed. It fails if they grow: the last quarter may need
# at most a fifth and 20 files more than the second quarter.
set -eu

[ $# -eq 1 ] || { echo 'usage: soak.sh AYNIG' >&2; exit 2; }
aynig=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
directory=$(mktemp -d)
server=''
finish() {
    status=$?
    trap - EXIT
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$directory"
    exit "$status"
}
trap finish EXIT
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TZ=UTC
export XDG_STATE_HOME="$directory/repository.state"

repository="$directory/repository"
sh "$here/web/fixtures.sh" "$aynig" "$repository" "$directory/fixtures" >"$directory/made" 2>&1 || {
    cat "$directory/made" >&2
    exit 1
}
cd "$repository"
"$aynig" serve --run --listen 127.0.0.1:0 >"$directory/link" 2>"$directory/served" &
server=$!
until [ -s "$directory/link" ]; do
    kill -0 "$server" || { cat "$directory/served" >&2; exit 1; }
    sleep 0.1
done
python3 "$here/soak.py" "$server" .git/aynig/data/serve.json "${MINUTES:-60}"
kill "$server"
wait "$server" || true
server=''
if grep -n 'panicked\|a bug' "$directory/served"; then exit 1; fi
