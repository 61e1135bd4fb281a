#!/bin/sh
# An example command. It is run for a branch whose newest commit says `dwp-state: example`, in a worktree of that
# branch, with the commit's body in $BODY. `aynig set-state --branch B --state example --body '...'` asks for it.
set -eu

{
    echo "asked at commit $COMMIT_HASH:"
    echo "$BODY"
} > hello.txt

# What is in the index when the command ends with 0 becomes part of the next commit.
git add hello.txt

# The next state. It is written as a commit; `done` has no command of its own, so the branch rests there.
echo 'SET_STATE {"state":"done","subject":"example: said hello"}'
