#!/usr/bin/env bash
# Runs every fuzz test of the module, each for the given time, and fails at the end if one found something.
set -euo pipefail
time=${1:?usage: fuzz.sh DURATION, as in 10s}
cd "$(dirname "$0")/.."
found=0
for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' internal cmd client | xargs -n1 dirname | sort -u); do
  for test in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //'); do
    echo "== $dir $test"
    # Minimising large inputs would eat the whole time.
    go test "./$dir" -run '^$' -fuzz "^$test\$" -fuzztime "$time" -fuzzminimizetime 10x || found=1
  done
done
exit "$found"
