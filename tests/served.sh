# shellcheck shell=sh
# For scripts that test a real server: makes a repository with runs in a directory that goes at the end, and serves it.
#
#   served AYNIG [OPTION...]
#
# Sets `directory` and `server` (a process id), and leaves the caller in the repository. The server's standard error is
# in $directory/served, its link in $directory/link.

served() {
    aynig=$1
    shift
    tests=$(cd "$(dirname "$0")" && while [ ! -f served.sh ]; do cd ..; done && pwd)
    directory=$(mktemp -d)
    server=''
    trap finish EXIT
    unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TZ=UTC
    export XDG_STATE_HOME="$directory/repository.state"
    sh "$tests/web/fixtures.sh" "$aynig" "$directory/repository" "$directory/fixtures" >"$directory/made" 2>&1 || {
        cat "$directory/made" >&2
        exit 1
    }
    cd "$directory/repository"
    "$aynig" serve --listen 127.0.0.1:0 "$@" >"$directory/link" 2>"$directory/served" &
    server=$!
    until [ -s "$directory/link" ]; do
        kill -0 "$server" || { cat "$directory/served" >&2; exit 1; }
        sleep 0.1
    done
}

finish() {
    status=$?
    trap - EXIT
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$directory"
    exit "$status"
}
