#!/bin/sh
# Handles jobs of the type "greet": jetcrew enqueue greet --input '{"name":"Ada"}'
# The job's input is on standard input, facts about it are in JETCREW_JOB_*.
set -eu

name=$(sed -n 's/.*"name" *: *"\([^"\\]*\)".*/\1/p')

if [ -z "$name" ]; then
	echo "the input has no name" >&2
	exit 65 # no attempt can succeed: dead
fi
if [ "$name" = nobody ]; then
	echo "nobody is not greeted" >&2
	exit 77 # refused: failed, with the line above as the reason
fi
if [ -n "${BUSY_FILE-}" ] && [ -e "$BUSY_FILE" ]; then
	echo "retry-after: 1s" >&2
	exit 75 # not now: again later, at no cost
fi

echo "greeting $name, attempt $JETCREW_JOB_ATTEMPT" >&2 # to the worker's log
printf '{"greeting":"Hello, %s!"}\n' "$name"            # the result
