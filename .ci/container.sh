#!/usr/bin/env bash
# Build the image of Containerfile with Podman, start it with a small model, and ask it for a translation.
#   .ci/container.sh [ARGUMENT OF podman build...]
# PODMAN may name another program or further options, RUN_OPTIONS those of podman run. Nothing is published.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra podman <<< "${PODMAN:-podman}"
read -ra options <<< "${RUN_OPTIONS:---publish 127.0.0.1:5000:5000}"
"${podman[@]}" build --format docker --tag heedful "$@" .

run=$PWD/tests/golden/translation-transformer/run
text='the dog hears the sea .'
container=$("${podman[@]}" run --detach "${options[@]}" --volume "$run:/models/run:ro" heedful /models/run)
trap '"${podman[@]}" logs "$container" | tail -n 20; "${podman[@]}" rm --force --time 20 "$container" > /dev/null' ERR

user=$("${podman[@]}" exec "$container" id -u)
[ "$user" != 0 ] || { echo 'the server runs as root' >&2; false; }
for _ in $(seq 120); do
  state=$("${podman[@]}" healthcheck run "$container" > /dev/null 2>&1 && echo healthy || echo starting)
  [ "$state" = healthy ] && break
  sleep 1
done
[ "$state" = healthy ] || { echo 'the health check does not succeed within two minutes' >&2; false; }
"${podman[@]}" exec "$container" python -c 'import heedful_native'
answer=$(python3 - "$text" << 'EOF'
import json, sys, urllib.request
body, kind = json.dumps({"texts": [sys.argv[1]]}).encode(), {"Content-Type": "application/json"}
request = urllib.request.Request("http://127.0.0.1:5000/v1/heedful/translate", body, kind)
print(json.load(urllib.request.urlopen(request, timeout=60))["answers"][0]["translation"])
EOF
)
[ -n "$answer" ] || { echo 'the server answers nothing' >&2; false; }
"${podman[@]}" stop --time 20 "$container" > /dev/null
code=$("${podman[@]}" inspect --format '{{.State.ExitCode}}' "$container")
[ "$code" = 0 ] || [ "$code" = 143 ] || { echo "the server ends with exit code $code" >&2; false; }
"${podman[@]}" rm "$container" > /dev/null
echo "user $user, healthy, '$text' -> '$answer', exit code $code"
