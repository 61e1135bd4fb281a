#!/bin/sh
# Runs the browser tests against the real server:
#
#   AYNIG_WEB_TOOLS=DIR real.sh AYNIG [FILE...]
#
# FILE are tests of this directory; those that need no stand-in unless given. The repository, its runs
# and the state of the server are in a temporary directory. With AYNIG_WEB_DIRECTORY they are in that one,
# which must not exist. It is removed at the end.
set -eu

[ $# -ge 1 ] || { echo 'usage: real.sh AYNIG [FILE...]' >&2; exit 2; }
program=$(command -v "$1") || { echo "real.sh: there is no program $1" >&2; exit 2; }
case $program in /*) ;; *) program=$PWD/$program ;; esac
shift
[ -n "${AYNIG_WEB_TOOLS:-}" ] || { echo 'real.sh: AYNIG_WEB_TOOLS is not set; see browser.mjs' >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- browser.test.mjs screens.test.mjs steering.test.mjs work.test.mjs hostile.test.mjs large.test.mjs

server='' tests=''
directory=${AYNIG_WEB_DIRECTORY:-}
if [ -n "$directory" ]; then
    mkdir "$directory"
else
    directory=$(mktemp -d)
fi
finish() {
    status=$?
    trap - EXIT
    for child in $tests $server; do
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    rm -rf "$directory"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo 'real.sh: making a repository with runs' >&2
# The same environment as in fixtures.sh: nothing of the person who runs the tests counts.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TZ=UTC
export XDG_STATE_HOME="$directory/repository.state"
sh "$here/fixtures.sh" "$program" "$directory/repository" "$directory/fixtures" >"$directory/made" 2>&1 || {
    cat "$directory/made" >&2
    echo 'real.sh: the repository could not be made' >&2
    exit 1
}

# A remote to publish to. Runs are decided here all the same.
git init --quiet --bare --initial-branch=main "$directory/origin"
git -C "$directory/repository" remote add origin "$directory/origin"
git -C "$directory/repository" push --quiet origin main

(cd "$directory/repository" && exec "$program" serve --listen 127.0.0.1:0) >"$directory/link" 2>"$directory/served" &
server=$!
tries=0
until grep -q '#t=' "$directory/link"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
        cat "$directory/served" >&2
        echo 'real.sh: the server did not start' >&2
        exit 1
    fi
    sleep 0.1
done
base=$(sed -n 's|^\(http://[^/]*\)/.*|\1|p' "$directory/link" | head -1)
echo "real.sh: $base serves it" >&2

# The tests ask the program for links, and let its agents work.
export AYNIG_WEB_BASE="$base" AYNIG_WEB_PROGRAM="$program" AYNIG_WEB_REPOSITORY="$directory/repository"
cd "$here"
# A signal is heard only while the shell waits.
node --test --test-concurrency=1 "$@" &
tests=$!
status=0
wait "$tests" || status=$?
tests=''
# Its first line only says that it serves.
sed 1d "$directory/served" >&2
exit "$status"
