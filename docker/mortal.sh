#!/bin/sh
# A coordinator that the tests can kill: they share its volume, and write the name of a signal, such
# as KILL or TERM, into the pipe. The engine's socket would let them do it as well, but would also
# give them the whole machine.
set -eu

pipe=/var/lib/coterie/signal
rm -f "$pipe"
mkfifo "$pipe"

coterie serve "$@" &
daemon=$!
{ read -r signal < "$pipe" && kill -s "$signal" "$daemon"; } &
trap 'kill -s TERM "$daemon"' TERM INT

# A trap ends a wait early, but the daemon's own exit code counts. When the first process of a
# container ends, all others do.
code=0
wait "$daemon" || code=$?
if kill -0 "$daemon" 2>/dev/null; then
    code=0
    wait "$daemon" || code=$?
fi
exit "$code"
