/** Splits a text into the words that the keyword search finds. Pure. */

/** The most characters of a word that are stored. A longer word is found by its beginning. */
const MAX_WORD = 64

const RUNS = /[\p{L}\p{N}\p{M}]+/gu

/** Most texts are ASCII. For them a simpler pattern gives the same words faster. */
const ASCII = /^[\0-\x7f]*$/
const ASCII_RUNS = /[a-z0-9]+/g

/** Characters of scripts that do not put spaces between words. */
const UNSPACED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}]+/u

/** With a capture group, so that `split` keeps these parts. */
const PARTS = new RegExp(`(${UNSPACED.source})`, 'u')

/**
 * Longer runs of marks are cut. To put the marks of one run in order takes time by the square of their number, and no
 * language needs more (Unicode calls this the stream-safe format).
 */
const LONG_MARKS = /(\p{M}{30})\p{M}+/gu

/**
 * How many times longer than its text the words may be. One character can stand for eighteen; in no text of a language
 * do they all.
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

/** The length of the character at a place: 2 for a surrogate pair. */
const lengthAt = (text: string, i: number) => ((text.codePointAt(i) ?? 0) > 0xffff ? 2 : 1)

/**
 * Removes case. Converts to upper case first, because some letters share a capital: ß and ss, the two Greek sigmas. The dot
 * of İ is a mark of its own in lower case, which i has without it.
 */
function withoutCase(text: string): string {
  const plain = text
    .replace(LONG_MARKS, '$1')
    .normalize('NFKC')
    .slice(0, MAX_GROWTH * text.length)
  const folded = plain.toUpperCase().toLowerCase()
  return folded.replaceAll('ς', 'σ').replaceAll('i\u0307', 'i').normalize('NFKC')
}

/** The first `MAX_WORD` characters. It never cuts a character (a surrogate pair) in half. */
function beginning(word: string): string {
  return word.length <= MAX_WORD ? word : [...word.slice(0, 2 * MAX_WORD)].slice(0, MAX_WORD).join('')
}
