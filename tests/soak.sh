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
here=$(cd "$(dirname "$0")" && pwd)
. "$here/served.sh"
served "$(realpath "$1")" --run
python3 "$here/soak.py" "$server" .git/aynig/data/serve.json "${MINUTES:-60}"
kill "$server"
wait "$server" || true
server=''
if grep -n 'panicked\|a bug' "$directory/served"; then exit 1; fi
