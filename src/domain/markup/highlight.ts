/** Marks the words of source code for their colors. Runs in a thread, see `renderer.ts`. */
import { createRequire } from 'node:module'

/** A file of source code. */
export interface Code {
  code: string
  /** Its ending, or all of it, names the language. */
  fileName: string
}

/** The used part of highlight.js. Its own types would bring those of browsers into all files. */
interface Highlighter {
  getLanguage(name: string): object | undefined
  highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { value: string }
}

const require = createRequire(import.meta.url)
let highlighter: Highlighter | undefined

/**
 * Returns the code as HTML in which each line has its own elements; empty for an unknown language. The texts are escaped,
 * and the only elements are `span` with a class.
 */
export function highlighted({ code, fileName }: Code): string {
  // Most threads never see code.
  highlighter ??= require('highlight.js/lib/common')
  const language = fileName.slice(fileName.lastIndexOf('.') + 1).toLowerCase()
  if (highlighter?.getLanguage(language) === undefined) return ''
  return withWholeLines(highlighter.highlight(code, { language, ignoreIllegals: true }).value)
}

/** Ends the open elements at the end of each line, and begins them again in the next one. */
function withWholeLines(markup: string): string {
  const open: string[] = []
  return markup.replaceAll(/<span[^>]*>|<\/span>|\n/g, (part) => {
    if (part === '\n') return `${'</span>'.repeat(open.length)}\n${open.join('')}`
    if (part === '</span>') open.pop()
    else open.push(part)
    return part
  })
}
