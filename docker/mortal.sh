#!/bin/sh
# A coordinator whose container ends when somebody else asks for it: whoever shares its volume writes
# the name of a signal, as KILL or TERM, into the pipe. An engine's own way to do that, its socket,
# would hand the whole machine to the tests.
set -eu

pipe=/var/lib/coterie/signal
rm -f "$pipe"
mkfifo "$pipe"

coterie serve "$@" &
daemon=$!
{ read -r signal < "$pipe" && kill -s "$signal" "$daemon"; } &
trap 'kill -s TERM "$daemon"' TERM INT

# A trap ends a wait early; what counts is how the daemon ended. The first process of a container
# takes all others with it.
code=0
wait "$daemon" || code=$?
if kill -0 "$daemon" 2>/dev/null; then
    code=0
    wait "$daemon" || code=$?
fi
exit "$code"
