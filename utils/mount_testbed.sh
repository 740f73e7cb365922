#!/usr/bin/env bash
# Mount a bucket of the testbed as a read-only directory, until Ctrl-C; it needs rclone and fuse3:
#   ./utils/mount_testbed.sh --endpoint http://127.0.0.1:9000 --bucket bucketbench /mnt/bucket
source "$(dirname "$0")/environment.sh"
exec python -m bucketbench.clients.mounting "$@"
