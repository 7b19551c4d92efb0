// A worker in JavaScript: Node 20.3 or newer, and nothing to install.
//   JOBROOM_URL=http://127.0.0.1:8000 JOBROOM_TOKEN=... node worker.mjs
const { JOBROOM_URL, JOBROOM_TOKEN, JOBROOM_ROOM = "r1" } = process.env;
const schema = { type: "object", properties: { steps: { type: "integer", minimum: 1 } } };
const job = { category: "analysis", name: "Count", schema, on_worker_lost: "requeue" };
const leave = new AbortController(); // at SIGTERM; a second one ends the program at once
let worker, running; // who we are, and what stops the task at hand
process.once("SIGTERM", () => (leave.abort(), running?.stop.abort("leaving")));
const pause = (seconds) => new Promise((go) => setTimeout(go, seconds * 1000));

async function run(payload, signal, progress) { // the work: this is yours
  for (let step = 1; step <= payload.steps; step++) {
    signal.throwIfAborted(); // cancelled, taken away, or we leave
    await pause(0.1);
    progress(step / payload.steps, `step ${step} of ${payload.steps}`);
  }
  return { steps: payload.steps, by: `node ${process.version}` };
}

// What is cut off, or refused for now, is sent again: the server knows a claim by its request_id
// and a report by its attempt, and does neither twice.
async function ask(method, path, body, { wait = 0, signal, once } = {}) {
  const headers = { authorization: `Bearer ${JOBROOM_TOKEN}`, "content-type": "application/json" };
  const request = { method, headers: { ...headers, prefer: `wait=${wait}` }, body: JSON.stringify(body) };
  for (let tries = 1; !signal?.aborted; tries++) {
    const limits = [AbortSignal.timeout((wait + 15) * 1000), signal].filter(Boolean);
    const answer = await fetch(`${JOBROOM_URL}/v1/joblib${path}`, { ...request, signal: AbortSignal.any(limits) })
      .then(async (got) => ({ code: got.status, ...(got.status === 204 ? {} : await got.json()) }))
      .catch(() => ({ code: 503 })); // no answer, or the error page of something between
    if (answer.code < 400 || [404, 409].includes(answer.code) || once) return answer;
    if (answer.code < 500 && answer.code !== 429) throw new Error(answer.detail);
    await pause((Math.min(2 ** tries, 100) / 10) * (0.5 + Math.random() / 2));
  }
  return {};
}
async function join() {
  worker = await ask("POST", "/workers", { name: "worker.mjs" });
  const known = await ask("PUT", `/rooms/${JOBROOM_ROOM}/jobs`, { ...job, worker_id: worker.id });
  if (!known.full_name) throw new Error(known.detail);
  console.log(`serving ${known.full_name} as ${worker.id}`);
}
async function beat() {
  for (;;) {
    await pause(worker.timeout_seconds / 4);
    const { code, cancel = [] } = await ask("PATCH", `/workers/${worker.id}`);
    if (cancel.includes(running?.id) || code === 404) running?.stop.abort(new Error("in vain"));
    if (code === 404) await join(); // the server has given us up
  }
}
async function perform(task) {
  const stop = new AbortController();
  const tell = (said, more) => ask("PATCH", `/tasks/${task.id}`, { attempt: task.attempt, ...said }, more);
  running = { id: task.id, stop };
  if (leave.signal.aborted) stop.abort("leaving");
  const progress = (progress, message) => tell({ progress, message }, { once: true })
    .then(({ code }) => code === 409 && stop.abort(new Error("in vain"))); // cancelled, or no longer ours
  const end = await run(task.payload, stop.signal, progress).then(
    (result) => ({ status: "completed", result }),
    (fault) => fault === "leaving" ? { status: "pending" } : { status: "failed", error: String(fault?.stack ?? fault) },
  );
  const told = await tell({ ...end, claim_next: !leave.signal.aborted });
  running = undefined;
  console.log(`${task.id} ${told.status}`);
  return told.next_task;
}

await join();
beat();
for (let task; task || !leave.signal.aborted; task &&= await perform(task)) {
  const claim = { worker_id: worker.id, start: true, request_id: crypto.randomUUID() };
  const found = task ? { task } : await ask("POST", "/tasks/claim", claim, { wait: 20, signal: leave.signal });
  if (found.code === 404) await pause(1); // until the next heartbeat has joined again
  task = leave.signal.aborted && !found.task ? (await ask("POST", "/tasks/claim", claim)).task : found.task;
}
await ask("DELETE", `/workers/${worker.id}`);
process.exit();
