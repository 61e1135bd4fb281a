#!/bin/sh
# Refetches the vendored packages named in vendor.lock and compares them with the files here.
#
#   vendor.sh            compare; exit 1 if a file differs
#   vendor.sh --update   write the files, and the lock's integrity and checksums
#
# To upgrade, change the version in vendor.lock (and in the import map of index.html), then run
# it with --update. It needs npm, openssl and sha256sum. The build of aynig never runs it.
set -eu

cd "$(dirname "$0")"
update=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

report() {
    echo "vendor.sh: $1" >&2
    status=1
}

name='' version=''
while read -r kind first second third fourth; do
    case $kind in
    package)
        name=$first version=$second licence=$third
        archive=$(cd "$work" && npm pack --silent "$name@$version")
        integrity="sha512-$(openssl dgst -sha512 -binary "$work/$archive" | base64 -w0)"
        mkdir -p "$work/$name"
        tar -xzf "$work/$archive" -C "$work/$name" --strip-components=1
        if [ "$update" = --update ]; then
            echo "package $name $version $licence $integrity"
        elif [ "$integrity" != "$fourth" ]; then
            report "$name@$version has the integrity $integrity, and not that of vendor.lock"
        fi
        ;;
    file)
        here="vendor/$name@$version/$first"
        sum=$(sha256sum <"$work/$name/$first" | cut -d' ' -f1)
        if [ "$update" = --update ]; then
            mkdir -p "$(dirname "$here")"
            cp "$work/$name/$first" "$here"
            chmod 644 "$here"
            echo "file $first $sum"
        elif [ "$sum" != "$second" ]; then
            report "$name@$version/$first has the checksum $sum, and not that of vendor.lock"
        elif ! cmp -s "$work/$name/$first" "$here"; then
            report "$here differs from the published file"
        fi
        ;;
    *) [ "$update" = --update ] && echo "$kind${first:+ $first}${second:+ $second}${third:+ $third}${fourth:+ $fourth}" ;;
    esac
done <vendor.lock >"$work/lock"

[ "$update" != --update ] || cp "$work/lock" vendor.lock
exit $status
