/** An agent for tests: it speaks the protocol, remembers every request, and fails in the ways it is told to. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, memoryStorage } from "ldpbandits";

export const URL_ = "https://agent.test";
export const KEY = "client-key";
export const UNIT = { kind: "range", low: 0, high: 1 };
export const LIMITS = { rewards: UNIT, epsilon: 1, budget: 10, window: 86400 };
export const CTB = { mechanism: "bernoulli", epsilon: 1, transform: UNIT };
/** Nothing is hidden: a response is its reward, but for once in e^50. */
export const LOUD = { curator: { ...CTB, epsilon: 50 }, limits: { ...LIMITS, epsilon: 50, budget: 5000 } };

export class Agent {
  /** What a decision says besides its ticket. */
  decision = { arm: 1, name: "green", curator: CTB, default: 0, report_after: 300, sticky: 0, expires_at: 1763240000, expires_in: 3600 };
  /** What an offer says in place of what decisions say. */
  offer = {};
  /** Tickets that were said to be accepted, each time. */
  accepted = [];
  /** Each request, as it arrived. */
  requests = [];
  /** ticket -> response counted. */
  counted = new Map();
  /** Called before a request is handled (an answer it gives is the reply), and after it (if it throws, the reply is lost). */
  before = (_path) => undefined;
  after = (_path) => undefined;
  #tickets = 0;

  /** What fetch would do, without a network. */
  fetch = async (url, options) => {
    const path = new URL(url).pathname;
    this.requests.push({ url, path, ...options });
    const early = await this.before(path);
    if (early instanceof Response) return early;
    const [status, body] = early ?? this.#handle(path, JSON.parse(options.body || "{}"));
    this.after(path);
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status });
  };

  #handle(path, { ticket, response }) {
    if (path.endsWith("/offer")) {
      const { curator, default: reward, report_after, sticky } = this.decision;
      const given = { status: "running", version: "v", curator, default: reward, report_after, sticky, shipped: null, retired: [], max_age: 0 };
      return [200, { ...given, ...this.offer }];
    }
    if (path === "/v1/acceptances") {
      this.accepted.push(ticket);
      return [200, { status: this.accepted.indexOf(ticket) < this.accepted.length - 1 ? "duplicate" : "accepted" }];
    }
    if (path.endsWith("/decisions")) return [200, { ...this.decision, ticket: `ticket-${++this.#tickets}` }];
    if (!this.counted.has(ticket)) {
      this.counted.set(ticket, response);
      return [200, { status: "counted" }];
    }
    return this.counted.get(ticket) === response
      ? [200, { status: "duplicate" }]
      : [409, { code: "changed", message: "this ticket was answered otherwise" }];
  }

  /** The requests for an arm. */
  get asked() {
    return this.requests.filter(({ path, method }) => path.endsWith("/decisions") && method === "POST");
  }

  /** The bodies of all responses sent, as text. */
  get sent() {
    return this.requests.filter(({ path }) => path === "/v1/responses").map(({ body }) => body);
  }

  /** Serve this agent over real HTTP, also to pages of other sites; returns its URL and a way to stop it. */
  async serve() {
    const server = createServer(async (request, reply) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const { method, headers } = request;
      try {
        const open = { "access-control-allow-origin": "*", "access-control-allow-headers": "authorization, content-type" };
        if (method === "OPTIONS") {
          this.requests.push({ method, path: request.url, headers });
          reply.writeHead(204, open).end();
          return;
        }
        const answer = await this.fetch(`http://agent${request.url}`, { method, headers, body });
        reply.writeHead(answer.status, { "content-type": "application/json", ...(request.url.endsWith("/offer") && { "cache-control": `max-age=${this.offer.max_age ?? 0}` }), ...open }).end(await answer.text());
      } catch {
        request.socket.destroy();
      }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    return {
      url: `http://127.0.0.1:${server.address().port}`,
      stop: () => {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      },
    };
  }
}

/** A clock that moves when it is told to. */
export function handClock(start = 1_763_000_000) {
  const clock = () => clock.time;
  clock.time = start;
  return clock;
}

/** A client of a fake agent; whatever is not given is new, and closed when the test ends. */
export function device(t, given = {}) {
  const { agent, storage, clock, ...options } = { agent: new Agent(), storage: memoryStorage(), clock: handClock(), ...given };
  const { url = URL_, experiment = "buttons", limits = LIMITS, onLeave = "send", allowAutomated = true, ...others } = options;
  const client = new Client(url, experiment, { key: KEY, limits, storage, fetch: agent.fetch, clock, onLeave, allowAutomated, ...others });
  t.after(() => client.close({ keep: true }));
  return { agent, storage, clock, client };
}

/** Count the bytes of randomness that are asked for while `task` runs. */
export async function bytesDrawn(t, task) {
  const spy = t.mock.method(crypto, "getRandomValues");
  await task();
  const bytes = spy.mock.calls.reduce((sum, call) => sum + call.arguments[0].byteLength, 0);
  spy.mock.restore();
  return bytes;
}

/** What a storage holds. */
export const state = async (storage) => JSON.parse(await storage.read());

/** Wait until something holds, for timers that run by themselves. */
export async function until(condition) {
  for (let i = 0; i < 300 && !(await condition()); i++) await sleep(10);
  assert.ok(await condition());
}
