/**
 * The service worker of a site: it sends each response at its moment, whatever became of the page. Pages call it as they
 * decide; it reads the ledger at the moment and not before, so that nothing tells it, or anybody by its doing, that there
 * was a reward. A browser may end it: then the next page of the site calls it again.
 *
 * It answers no `fetch` and controls no page. A site that has a worker of its own imports this file in that.
 */

import { lease, momentToSend, settle } from "./outbox.js";
import { pageStorage } from "./page.js";
import { exchanger, isFinal, sendResponse } from "./wire.js";

/** @import { State, StoredPull } from "./ledger.js" */

/** For how long it stays for a moment to come, in seconds: browsers end a worker without a page after some of that. */
const LONGEST_STAY_S = 300;

const clock = () => Date.now() / 1000;
/** In seconds; it doubles with each round that had a failure. */
let retryAfter = 1;
let retryAt = 0;

/** @param {(state: State) => unknown} edit of a ledger; one that cannot be parsed is left to the pages, which say so */
const change = (edit) =>
  pageStorage.change((text) => {
    const state = JSON.parse(text ?? "");
    edit(state);
    return JSON.stringify(state);
  });

/** @param {State} state */
const open = ({ pulls }) => pulls.filter(({ cleared, end }) => cleared && clock() < end);

/**
 * The random delay of a pull hides the milliseconds by which a browser that still has a page of the site is slower or
 * faster. It was drawn with the pull: how often pages have called changes nothing.
 *
 * @param {StoredPull} pull
 */
const moment = (pull) => momentToSend(pull, clock()) + (pull.left === undefined ? pull.delay ?? 0 : 0);

/** @param {StoredPull} pull that has left */
async function send({ url, ticket, response, curator, left = 0 }) {
  let isOver = true;
  try {
    await sendResponse(exchanger(fetch, url), ticket, response, curator.epsilon);
  } catch (error) {
    isOver = isFinal(error);
  }
  await change((state) => settle(state, { ticket, response, left }, isOver));
  return isOver;
}

/** Send what is due, and wait for what will be. */
async function deliver() {
  const end = clock() + LONGEST_STAY_S;
  for (;;) {
    const state = JSON.parse((await pageStorage.read()) ?? "");
    const next = Math.min(...open(state).map(moment));
    if (next > end) return;
    const wait = Math.max(next, retryAt) - clock(); // below 0 is 0
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    /** @type {StoredPull[]} */
    let due = [];
    await change((state) => {
      const now = clock();
      due = open(state).filter((pull) => moment(pull) <= now);
      lease(state, due, now);
    });
    const areOver = await Promise.all(due.map(send));
    if (areOver.every(Boolean) || clock() < retryAt) continue; // failures at the same time, for several pages, count once
    retryAt = clock() + retryAfter;
    retryAfter = Math.min(2 * retryAfter, LONGEST_STAY_S);
  }
}

addEventListener("message", (event) => {
  const { data, waitUntil } = /** @type {any} */ (event);
  if (data === "ldpbandits") waitUntil.call(event, deliver().catch(() => {})); // without a ledger there is nothing to send
});
