#!/bin/sh
# A task's whole life, told by curl: what a worker and a user in any language do.
#   JOBROOM_URL=http://127.0.0.1:8000 JOBROOM_TOKEN=... sh tour.sh
set -eu
room=$JOBROOM_URL/v1/joblib/rooms/tour tasks=$JOBROOM_URL/v1/joblib/tasks

ask() {
    curl -sS --fail-with-body -w '\n' -H "Authorization: Bearer $JOBROOM_TOKEN" \
        -H "Content-Type: application/json" "$@"
}
id_in() { grep -o '"id":"[^"]*"' | head -n 1 | cut -d '"' -f 4; }

echo "== a worker offers a job, with the schema that payloads must fit"
ask -X PUT "$room/jobs" -d '{"category": "modifiers", "name": "Rotate",
    "schema": {"type": "object", "properties": {"angle": {"type": "number"}}}}'

echo "== a user submits a task; what does not fit is refused, and told where"
task=$(ask "$room/tasks/tour:modifiers:Rotate" -d '{"payload": {"angle": 90}}' | id_in)
ask "$room/tasks/tour:modifiers:Rotate" -d '{"payload": {"angle": "left"}}' || true

echo "== the worker claims it, waiting up to 10 s for one, and starts it"
claimed=$(ask "$tasks/claim" -H "Prefer: wait=10" -d '{}')
echo "$claimed"
task=$(echo "$claimed" | id_in) # the oldest: an earlier tour may have left one
ask -X PATCH "$tasks/$task" -d '{"status": "running"}'

echo "== it tells how far it is, and what it prints"
ask -X PATCH "$tasks/$task" -d '{"progress": 0.5, "message": "half way", "log": "turning\n"}'

echo "== the user waits for the end while the worker completes it"
ask "$tasks/$task" -H "Prefer: wait=10" &
ask -X PATCH "$tasks/$task" -d '{"status": "completed", "result": {"turned": 90}}' >/dev/null
wait
ask "$tasks/$task/result"
ask "$tasks/$task/log"

echo "== another task is cancelled before anybody claims it"
task=$(ask "$room/tasks/tour:modifiers:Rotate" -d '{"payload": {}}' | id_in)
ask -X PATCH "$tasks/$task" -d '{"status": "cancelled"}'

echo "== the worker leaves"
ask -X DELETE "$JOBROOM_URL/v1/joblib/workers/$(ask "$JOBROOM_URL/v1/me" | id_in)"
