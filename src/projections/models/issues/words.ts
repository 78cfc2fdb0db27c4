/** Splits a text into the words that the keyword search finds. Pure. */

/** Maximum length of a stored word, in characters. A longer word is found by its beginning. */
const MAX_WORD = 64

const RUNS = /[\p{L}\p{N}\p{M}]+/gu

/** Most texts are ASCII, for which a simpler pattern finds the same words faster. */
const ASCII = /^[\0-\x7f]*$/
const ASCII_RUNS = /[a-z0-9]+/g

/** Characters of scripts without spaces between words. */
const UNSPACED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}]+/u

/** With a capture group, so that `split` keeps these parts. */
const PARTS = new RegExp(`(${UNSPACED.source})`, 'u')

/**
 * Longer runs of marks are cut: ordering the marks of a run takes quadratic time, and no language needs more (Unicode's
 * stream-safe format).
 */
const LONG_MARKS = /(\p{M}{30})\p{M}+/gu

/**
 * Maximum growth of a text by normalization. One character can become eighteen, but texts of real languages grow less.
 */
const MAX_GROWTH = 4

/**
 * Returns each word once, in lower case, in the order of the text. A word is a run of letters and digits of any
 * script. In a script without spaces, each character and the next one form a word, so that any part of such a text is
 * found.
 */
export function wordsOf(text: string): string[] {
  if (ASCII.test(text)) return [...new Set(text.toLowerCase().match(ASCII_RUNS)?.map(beginning))]
  const words = new Set<string>()
  for (const run of new Set(withoutCase(text).match(RUNS))) {
    if (UNSPACED.test(run)) addUnspaced(words, run)
    else words.add(beginning(run))
  }
  return [...words]
}

function addUnspaced(words: Set<string>, run: string): void {
  for (const part of run.split(PARTS)) {
    if (!UNSPACED.test(part)) {
      if (part !== '') words.add(beginning(part))
      continue
    }
    for (let i = 0, next = 0; i < part.length; i = next) {
      next = i + lengthAt(part, i)
      words.add(part.slice(i, next + lengthAt(part, next)))
    }
  }
}

/** Length of the character at an index: 2 for a surrogate pair. */
const lengthAt = (text: string, i: number) => ((text.codePointAt(i) ?? 0) > 0xffff ? 2 : 1)

/**
 * Removes case. Converts to upper case first, because some letters share a capital: ß and ss, the two Greek sigmas.
 * Removes the dot of İ, which is a separate mark in lower case.
 */
function withoutCase(text: string): string {
  const plain = text
    .replace(LONG_MARKS, '$1')
    .normalize('NFKC')
    .slice(0, MAX_GROWTH * text.length)
  const folded = plain.toUpperCase().toLowerCase()
  return folded.replaceAll('ς', 'σ').replaceAll('i\u0307', 'i').normalize('NFKC')
}

/** Returns the first `MAX_WORD` characters, without cutting a surrogate pair. */
function beginning(word: string): string {
  return word.length <= MAX_WORD ? word : [...word.slice(0, 2 * MAX_WORD)].slice(0, MAX_WORD).join('')
}
