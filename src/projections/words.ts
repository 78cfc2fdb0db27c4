/** The words of a text, as the keyword search knows them: DESIGN section 8. Pure. */

/** In characters. A longer word is found by its beginning. */
const MAX_WORD = 64

const RUNS = /[\p{L}\p{N}\p{M}]+/gu

/** Most texts, and quicker; what is said below of all texts is true of these, too. */
const ASCII = /^[\0-\x7f]*$/
const ASCII_RUNS = /[a-z0-9]+/g

/** Of scripts that set no blanks between words. */
const UNSPACED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}]+/u

/** Where they begin and end, kept by `split`. */
const PARTS = new RegExp(`(${UNSPACED.source})`, 'u')

/**
 * Each word once, without case, in the order of the text: runs of letters and digits of any script. Where no
 * blanks tell words apart, each character begins one, which ends with the next: any part of such a text is found.
 */
export function wordsOf(text: string): string[] {
  if (ASCII.test(text)) return [...new Set(text.toLowerCase().match(ASCII_RUNS)?.map(beginning))]
  const words = new Set<string>()
  for (const run of new Set(withoutCase(text).match(RUNS))) {
    if (UNSPACED.test(run)) for (const word of unspacedWords(run)) words.add(word)
    else words.add(beginning(run))
  }
  return [...words]
}

function* unspacedWords(run: string): Iterable<string> {
  for (const part of run.split(PARTS)) {
    if (!UNSPACED.test(part)) {
      if (part !== '') yield beginning(part)
      continue
    }
    const characters = [...part]
    for (const [i, character] of characters.entries()) yield `${character}${characters[i + 1] ?? ''}`
  }
}

/** By way of capitals, which some letters share: ß and SS, both forms of the Greek sigma. */
function withoutCase(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFKC')
}

/** Whole characters: half of one is none that could be looked for. */
function beginning(word: string): string {
  return word.length <= MAX_WORD ? word : [...word.slice(0, 2 * MAX_WORD)].slice(0, MAX_WORD).join('')
}
