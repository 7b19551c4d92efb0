-- The least that stores a task with a libSQL server: one INSERT, sent bare, which commits by itself.
wrk.method = "POST"
wrk.body = '{"baton":null,"requests":[{"type":"execute","stmt":{"sql":"INSERT INTO bare (status, payload) VALUES (\'pending\', \'{\\"angle\\": 90, \\"axis\\": \\"z\\", \\"note\\": \\"as long as the payloads that come from a user\\"}\')"}},{"type":"close"}]}'
wrk.headers["Content-Type"] = "application/json"
