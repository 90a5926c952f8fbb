/**
 * Exact samplers: words from the operating system in, an exact law out. No floating point anywhere.
 *
 * A uniform U in [0, 1) is revealed 64 bits at a time. For a real p, the event U < p is settled by the first word W of
 * U unless W = floor(2^64 p), which happens once in 2^64; then the next word is compared with the next 64 bits of p,
 * and so on. The event has probability p exactly, although p is irrational, because any number of bits of p can be
 * computed.
 *
 * The magnitude of discrete Laplace noise is geometric, P(G >= g) = e^(-g x), and the binary digits of a geometric
 * variable are independent: digit k is one with probability 1 / (1 + e^(2^k x)). One word a digit gives the exact law,
 * and how much randomness is used does not tell how large the noise is.
 *
 * @typedef {(count: number) => ArrayLike<bigint>} Draw gives `count` independent uniform integers below 2^64
 * @typedef {readonly [numerator: bigint, shift: bigint]} Dyadic the number numerator / 2^shift: every double is one
 * @typedef {(word: bigint, draw: Draw) => boolean} Coin heads or tails; `word` is the first word of U
 */

/**
 * Draw `count` words from the operating system. Nothing is kept between calls: what is in a buffer can be read before
 * it is used, or copied.
 *
 * @type {Draw}
 */
export function systemWords(count) {
  return new BigUint64Array(crypto.getRandomValues(new Uint8Array(8 * count)).buffer);
}

/**
 * A double as the rational number it is.
 *
 * @param {number} x finite
 * @returns {Dyadic}
 */
export function dyadic(x) {
  let shift = 0n;
  for (; !Number.isInteger(x); x *= 2) shift++; // doubling is exact, and never overflows what is not an integer
  return [BigInt(x), shift];
}

/**
 * floor(2^bits / (plus + e^x)) for x > 0: the first bits of a probability.
 *
 * e^x is bracketed by its series with every term rounded down, and up. From i >= 2x on, each term is at most half the
 * one before, so that the rest is at most the last term. Precision is added until both ends give the same floor; they
 * do in the end, since e^x is irrational for rational x > 0.
 *
 * @param {Dyadic} x
 * @param {bigint} plus
 * @param {bigint} bits
 */
export function firstBits([numerator, shift], plus, bits) {
  for (let precision = bits + 64n; ; precision += 64n) {
    let lowTerm = 1n << precision;
    let highTerm = lowTerm;
    let low = lowTerm * (plus + 1n);
    let high = low;
    for (let i = 1n; highTerm > 1n || (i - 1n) << shift < 2n * numerator; i++) {
      const divisor = i << shift;
      lowTerm = (lowTerm * numerator) / divisor;
      highTerm = (highTerm * numerator + divisor - 1n) / divisor;
      low += lowTerm;
      high += highTerm;
    }
    const one = 1n << (bits + precision);
    const least = one / (high + highTerm);
    if (least === one / low) return least;
  }
}

/**
 * Heads with probability exactly 1 / (plus + e^x); more words are drawn only if the first does not settle U < p.
 *
 * @param {Dyadic} x
 * @param {bigint} plus
 * @returns {Coin}
 */
function coin(x, plus) {
  const first = firstBits(x, plus, 64n);
  return (word, draw) => {
    let threshold = first;
    for (let bits = 128n; word === threshold; bits += 64n) {
      word = (word << 64n) | draw(1)[0];
      threshold = firstBits(x, plus, bits);
    }
    return word < threshold;
  };
}

/**
 * The sampler of an integer Z with P(Z = z) proportional to e^(-x |z|), exactly.
 *
 * One Z takes a word for the sign, one for all digits beyond the last coin, and one a digit. A Z of minus zero is drawn
 * again: zero would count twice otherwise.
 *
 * @param {Dyadic} x > 0
 * @returns {(draw: Draw) => bigint}
 */
export function discreteLaplace([numerator, shift]) {
  /** @type {Coin[]} */
  const digits = [];
  for (; numerator < 64n << shift; numerator *= 2n) digits.push(coin([numerator, shift], 1n));
  const rest = coin([numerator, shift], 0n);
  return (draw) => {
    for (;;) {
      const words = draw(2 + digits.length);
      let magnitude = 0n;
      let value = 1n;
      for (let k = 0; k < digits.length; k++) {
        if (digits[k](words[2 + k], draw)) magnitude += value;
        value *= 2n;
      }
      // At most once in e^64: a further `value`, by memorylessness.
      for (let word = words[1]; rest(word, draw); word = draw(1)[0]) magnitude += value;
      const negative = words[0] >> 63n;
      if (magnitude || !negative) return negative ? -magnitude : magnitude;
    }
  };
}
