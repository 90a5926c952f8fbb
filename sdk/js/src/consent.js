/**
 * Who takes part. The owner's own choice on this site goes before the signal that their browser sends to all sites; a program
 * that visits the site is nobody whose answer counts.
 *
 * @import { State } from "./ledger.js"
 */

import { LimitError } from "./errors.js";

/** Crawlers that say so. There is a telephone whose name ends like theirs. */
const CRAWLERS = /(^|[^u])bot\b|crawl|spider|slurp|lighthouse|headless|facebookexternalhit/i;

/**
 * Refuse to take part, unless the owner does.
 *
 * @param {State} state
 * @param {string} consent "required" or "given"
 * @param {boolean} allowAutomated
 */
export function checkConsent({ consent: said }, consent, allowAutomated) {
  const { webdriver, userAgent = "", globalPrivacyControl } = /** @type {any} */ (globalThis.navigator ?? {});
  if (said === "out") throw new LimitError("this device's owner has opted out", "opted_out");
  if (!allowAutomated && (webdriver || CRAWLERS.test(userAgent))) {
    throw new LimitError("this browser is automated, see allowAutomated", "automated");
  }
  if (said === "in") return;
  if (consent === "required") throw new LimitError("this device's owner has not opted in", "consent_required");
  if (globalPrivacyControl) throw new LimitError("this browser sends Global Privacy Control, see optIn", "signal");
}
