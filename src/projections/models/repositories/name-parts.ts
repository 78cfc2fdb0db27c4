/** Indexes the suffixes of names, so that a search by prefix finds any part of a name. Pure. */

/** Maximum length of a part. A longer keyword matches by its beginning. */
const MAX_PART = 40

const withoutCase = (text: string) => text.normalize('NFKC').toLowerCase()

/** Returns every suffix of the texts, in lower case, each once. Each part of a text is the prefix of one. */
export function partsOf(...texts: readonly string[]): string[] {
  const parts = new Set<string>()
  for (const text of texts) {
    const characters = [...withoutCase(text)]
    for (const i of characters.keys()) parts.add(characters.slice(i, i + MAX_PART).join(''))
  }
  return [...parts]
}

/** Returns the prefix to search for; undefined for an empty keyword. */
export function partNamed(keyword: string): string | undefined {
  const characters = [...withoutCase(keyword.trim())]
  return characters.length === 0 ? undefined : characters.slice(0, MAX_PART).join('')
}
