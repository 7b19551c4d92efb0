-- A worker's requests for one task: claim, say that it runs where the claim does not, complete.
-- One connection a thread: a Lua state sees its own answers only. Each is a worker of its own.
local head = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer @TOKEN@"}
local workers = {@WORKERS@}
local starts = @STARTS@
local threads = 0
local claim, id, attempt, running

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init()
  claim = '{"worker_id": "' .. workers[number % #workers + 1] .. '"'
  if starts then claim = claim .. ', "start": true' end
  claim = claim .. '}'
end

local function report(status)
  local body = '{"status": "' .. status .. '"'
  if attempt then body = body .. ', "attempt": ' .. attempt end
  return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, body .. '}')
end

function request()
  if not id then return wrk.format("POST", "/v1/joblib/tasks/claim", head, claim) end
  if running then return report("completed") end
  return report("running")
end

function response(status, headers, body)
  if not id then
    id = string.match(body, '"id":"([^"]+)"')
    attempt = string.match(body, '"attempt":(%d+)')
    running = starts
  elseif status >= 500 then
    -- Not taken: sent again.
  elseif running then
    id = nil
  else
    running = true
  end
end
