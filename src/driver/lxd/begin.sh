#!/bin/sh
# What LXD starts wherever it would start itself again: itself, and for a new container in the mount
# namespace that was prepared for it. There its root is, and nowhere else.
if [ "$1" = forkstart ]; then
    exec nsenter --mount="$SURTAX_NAMESPACES/$2" "$SURTAX_LXD" "$@"
fi
exec "$SURTAX_LXD" "$@"
