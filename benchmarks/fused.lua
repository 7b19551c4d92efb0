-- A busy worker's one request a task: complete this one and claim the next.
local head = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer TOKEN"}
local id, attempt

function request()
  if id then
    local body = '{"status": "completed", "claim_next": true, "attempt": ' .. attempt .. '}'
    return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, body)
  end
  return wrk.format("POST", "/v1/joblib/tasks/claim", head, '{"start": true}')
end

function response(status, headers, body)
  local next = string.match(body, '"next_task":(.*)') or body
  id = string.match(next, '"id":"([^"]+)"')
  attempt = string.match(next, '"attempt":(%d+)')
end
