/** Finds references to issues and pull requests in a text, with their keywords. Pure. */

/** The part of a regular expression for `owner/name#1`, `#1` or `!1`. Its parts are bounded, so it takes linear time. */
export const NUMBER_REFERENCE = String.raw`(?<other>[\w.-]{1,40}\/[\w.-]{1,100})?[#!](?<index>[1-9]\d{0,9})`
/** A reference does not begin in the middle of a word or of another reference. */
export const REFERENCE_BEGIN = String.raw`(?<![\w/@#!.-])`
export const REFERENCE_END = String.raw`(?![\w/@#-])`

const REFERENCE = new RegExp(`${REFERENCE_BEGIN}${NUMBER_REFERENCE}${REFERENCE_END}`, 'g')
const HAS_REFERENCE = /[#!][1-9]|\/(?:issues|pulls)\/[1-9]/

/** The keywords of Gitea, directly before a reference: `fixes #1`, `Closes: owner/name#1`. */
const KEYWORD = /(?<![^\s([])(?:(close[sd]?|fix(?:e[sd])?|resolve[sd]?)|reopen(?:s|ed)?):? $/i
/** The length of the longest keyword, with the colon, the space and the character before it. */
const KEYWORD_WINDOW = 'reopened'.length + 3

/** Maximum number of issues that one text can reference. */
const MAX_REFERENCES = 50

/** The effect of a keyword, in Gitea's words. */
export const REFERENCE_ACTIONS = ['none', 'closes', 'reopens'] as const
export type ReferenceAction = (typeof REFERENCE_ACTIONS)[number]

export interface Reference {
  /** `owner/name` in lower case; null: the repository of the text. */
  place: string | null
  index: number
  action: ReferenceAction
}

/** A cheap test whether a text may contain references. Most texts have none. */
export const mayHaveReferences = (text: string) => HAS_REFERENCE.test(text)

/**
 * Returns the references in a text without markup, each once, in order. Of several keywords before the same reference the
 * last one counts.
 */
export function referencesIn(text: string): Reference[] {
  const found = new Map<string, Reference>()
  for (const { groups = {}, index: start } of text.matchAll(REFERENCE)) {
    const place = groups.other?.toLowerCase() ?? null
    const index = Number(groups.index)
    const action = actionBefore(text, start)
    const key = `${place} ${index}`
    const before = found.get(key)
    if (before === undefined && found.size === MAX_REFERENCES) break
    if (before === undefined || action !== 'none') found.set(key, { place, index, action })
  }
  return [...found.values()]
}

function actionBefore(text: string, start: number): ReferenceAction {
  const keyword = KEYWORD.exec(text.slice(Math.max(0, start - KEYWORD_WINDOW), start))
  if (keyword === null) return 'none'
  return keyword[1] === undefined ? 'reopens' : 'closes'
}

/** Replaces URLs of issues and pull requests by `owner/name#1`. `site`: as in `publicUrl`. */
export function withShortNames(text: string, site: string): string {
  if (!text.includes(site)) return text
  const address = String.raw`\/([\w.-]{1,40}\/[\w.-]{1,100})\/(?:issues|pulls)\/([1-9]\d{0,9})(?:#issuecomment-\d{1,16})?(?![\w/#-])`
  return text.replaceAll(new RegExp(`(?<![\\w/])${RegExp.escape(site)}${address}`, 'g'), '$1#$2')
}

/** Placeholder for code and links, so that the words around them are not read as one phrase. */
export const NO_PROSE = '`'

/** Removes code spans from a title or a commit message. They are plain text, but authors write code spans in them, too. */
export const plainProse = (text: string, site: string) =>
  withShortNames(text.replaceAll(/`[^`\n]{1,1000}`/g, NO_PROSE), site)
