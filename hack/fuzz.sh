#!/usr/bin/env bash
# Runs every fuzz test of the module, each for the given time.
set -euo pipefail
time=${1:?usage: fuzz.sh DURATION, as in 10s}
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' internal cmd | xargs -n1 dirname | sort -u | while read -r dir; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | while read -r test; do
    echo "== $dir $test"
    # Minimising large inputs would eat the whole time.
    go test "./$dir" -run '^$' -fuzz "^$test\$" -fuzztime "$time" -fuzzminimizetime 10x
  done
done
