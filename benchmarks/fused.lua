-- A busy worker's one request a task: complete this one and claim the next.
-- One connection a thread: a Lua state sees its own answers only. Each is a worker of its own.
local head = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer @TOKEN@"}
local workers = {@WORKERS@}
local threads = 0
local worker, id, attempt

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init()
  worker = '"worker_id": "' .. workers[number % #workers + 1] .. '"'
end

function request()
  if not id then
    return wrk.format("POST", "/v1/joblib/tasks/claim", head, '{"start": true, ' .. worker .. '}')
  end
  local body = '{"status": "completed", "claim_next": true, "attempt": ' .. attempt .. '}'
  return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, body)
end

function response(status, headers, body)
  local next = string.match(body, '"next_task":(.*)') or body
  id = string.match(next, '"id":"([^"]+)"')
  attempt = string.match(next, '"attempt":(%d+)')
end
