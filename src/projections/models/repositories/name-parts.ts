/** Makes any part of a name findable: a search for the beginning of a word finds the ends of the name. Pure. */

/** Maximum length of a part. A longer keyword matches by its beginning. */
const MAX_PART = 40

const withoutCase = (text: string) => text.normalize('NFKC').toLowerCase()

/** Every end of the texts, in lower case and without repetition. Each part of a text is the beginning of one of them. */
export function partsOf(...texts: readonly string[]): string[] {
  const parts = new Set<string>()
  for (const text of texts) {
    const characters = [...withoutCase(text)]
    for (const i of characters.keys()) parts.add(characters.slice(i, i + MAX_PART).join(''))
  }
  return [...parts]
}

/** Returns the part for a keyword; undefined when it is empty. */
export function partNamed(keyword: string): string | undefined {
  const characters = [...withoutCase(keyword.trim())]
  return characters.length === 0 ? undefined : characters.slice(0, MAX_PART).join('')
}
