/**
 * One exception tree. Each message names the rule that was broken, and the value unless that value is a reward.
 *
 *     LDPBanditsError
 *     ├── ParameterError   a number or name given by the caller is outside its rule
 *     │   └── SpecError        a curator spec is unknown or out of range
 *     ├── RewardError      a reward the curator cannot take; never shows the reward
 *     ├── LimitError       this device's owner does not allow it: too much is asked, or nothing may be
 *     ├── LedgerError      the ledger cannot be read, written or locked; nothing was spent or sent
 *     ├── TicketError      no pull awaits a reward under this ticket
 *     └── ServerError      the agent's server refused, failed, or could not be reached
 *
 * Names are written out because a bundler shortens those of classes.
 */

/** Anything this library refuses to do. */
export class LDPBanditsError extends Error {
  get name() {
    return "LDPBanditsError";
  }
}

/** A number or name given by the caller is outside its rule. */
export class ParameterError extends LDPBanditsError {
  get name() {
    return "ParameterError";
  }
}

/** A curator spec is unknown or out of range. */
export class SpecError extends ParameterError {
  get name() {
    return "SpecError";
  }
}

/** The curator cannot take this reward. The message gives the rule and never the reward. */
export class RewardError extends LDPBanditsError {
  get name() {
    return "RewardError";
  }
}

/** This device's owner does not allow it. Nothing was drawn, and nothing was spent. */
export class LimitError extends LDPBanditsError {
  /**
   * @param {string} message
   * @param {"limit" | "opted_out" | "consent_required" | "automated" | "signal"} [code] "limit" where an agent asks for too
   *   much; the others say why this device does not take part at all
   */
  constructor(message, code = "limit") {
    super(message);
    this.code = code;
  }

  get name() {
    return "LimitError";
  }
}

/** The ledger cannot be read, written or locked. Its content stays unchanged. */
export class LedgerError extends LDPBanditsError {
  get name() {
    return "LedgerError";
  }
}

/** No pull awaits a reward under this ticket: it was never decided here, has had one, or its moment has passed. */
export class TicketError extends LDPBanditsError {
  get name() {
    return "TicketError";
  }
}

/** The agent's server refused, failed, or could not be reached (then `status` is 0 and `code` "unreachable"). */
export class ServerError extends LDPBanditsError {
  /**
   * @param {string} message
   * @param {number} status of HTTP
   * @param {string} code of the protocol, such as "paused" or "expired"
   * @param {unknown} [cause]
   */
  constructor(message, status, code, cause) {
    super(message, { cause });
    this.status = status;
    this.code = code;
  }

  get name() {
    return "ServerError";
  }
}
