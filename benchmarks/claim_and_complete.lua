-- A worker's two requests a task. One connection a thread: a Lua state sees its own answers only.
local head = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer TOKEN"}
local id, attempt

function request()
  if id then
    local body = '{"status": "completed", "attempt": ' .. attempt .. '}'
    return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, body)
  end
  return wrk.format("POST", "/v1/joblib/tasks/claim", head, '{"start": true}')
end

function response(status, headers, body)
  if id then
    id = nil
  else
    id = string.match(body, '"id":"([^"]+)"')
    attempt = string.match(body, '"attempt":(%d+)')
  end
end
