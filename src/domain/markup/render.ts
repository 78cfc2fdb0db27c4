/** Markdown as HTML that is safe to show. It runs in a thread of its own: see `renderer.ts`. */
import MarkdownIt, { type Token } from 'markdown-it'
import sanitizeHtml from 'sanitize-html'
import { NO_PROSE, NUMBER_REFERENCE, REFERENCE_BEGIN, REFERENCE_END, withShortNames } from './references.ts'

/** A text, and where its references lead. */
export interface Markdown {
  text: string
  /** As in comments: each line break counts. */
  hardBreaks: boolean
  /** The page of the server, without a trailing slash, for mentions of users. */
  site: string
  /** `owner/name` of the repository whose issues and commits the text means; null: none is meant. */
  repository: string | null
}

const parserWith = (breaks: boolean) => {
  const markdown = new MarkdownIt({ html: true, linkify: true, breaks })
  // Names of files end like those of sites: only addresses that say so are links.
  markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false })
  return markdown
}
const PARSERS = { soft: parserWith(false), hard: parserWith(true) }

/**
 * What is linked: `owner/name#1`, `#1` or `!1`, `@login`, a commit by at least seven digits. It begins at a word's
 * beginning and has bounded parts, so that it takes linear time.
 */
const REFERENCE = new RegExp(
  String.raw`${REFERENCE_BEGIN}(?:${NUMBER_REFERENCE}|@(?<login>\w[\w.-]{0,38}\w|\w)|(?<commit>[0-9a-f]{7,40}))${REFERENCE_END}`,
  'g',
)

/** The address that a reference leads to; undefined when it has none here. */
function addressOf(groups: Readonly<Record<string, string | undefined>>, { site, repository }: Markdown) {
  const { other, index, login, commit } = groups
  if (login !== undefined) return `${site}/${login}`
  const place = other ?? repository
  if (place === null) return undefined
  if (index !== undefined) return `${site}/${place}/issues/${index}`
  // A number is a word, too.
  return commit === undefined || !/[a-f]/.test(commit) ? undefined : `${site}/${place}/commit/${commit}`
}

/** The text of a token, with its references as links. */
function linked(token: Token, make: (type: string, tag: string, nesting: 0 | 1 | -1) => Token, to: Markdown) {
  const parts: Token[] = []
  let end = 0
  const text = (content: string) => {
    if (content === '') return
    const part = make('text', '', 0)
    part.content = content
    parts.push(part)
  }
  for (const found of token.content.matchAll(REFERENCE)) {
    const address = addressOf(found.groups ?? {}, to)
    if (address === undefined) continue
    const [whole] = found
    text(token.content.slice(end, found.index))
    const open = make('link_open', 'a', 1)
    open.attrs = [['href', address]]
    parts.push(open)
    text(found.groups?.commit === undefined ? whole : whole.slice(0, 10))
    parts.push(make('link_close', 'a', -1))
    end = found.index + whole.length
  }
  if (end === 0) return [token]
  text(token.content.slice(end))
  return parts
}

/** Links the references in the texts of all tokens, apart from those in links and in code. */
function linkReferences(tokens: readonly Token[], to: Markdown): void {
  for (const block of tokens) {
    if (block.children === null) continue
    let links = 0
    block.children = block.children.flatMap((token) => {
      if (token.type === 'link_open') links += 1
      if (token.type === 'link_close') links -= 1
      if (token.type === 'html_inline' && /^<a[\s>]/i.test(token.content)) links += 1
      if (token.type === 'html_inline' && /^<\/a/i.test(token.content)) links -= 1
      if (token.type !== 'text' || links > 0) return [token]
      const TokenOf = token.constructor
      const make = (type: string, tag: string, nesting: 0 | 1 | -1): Token =>
        Reflect.construct(TokenOf, [type, tag, nesting])
      return linked(token, make, to)
    })
  }
}

const TASK = /^\[([ xX])\](?=\s)/

/** `- [x] done` as a box that nobody can click. */
function showTasks(tokens: readonly Token[]): void {
  for (const [i, block] of tokens.entries()) {
    const [first] = block.children ?? []
    if (first?.type !== 'text' || tokens[i - 2]?.type !== 'list_item_open') continue
    const found = TASK.exec(first.content)
    if (found === null) continue
    const box = Reflect.construct(first.constructor, ['html_inline', '', 0])
    box.content = `<input type="checkbox" disabled${found[1] === ' ' ? '' : ' checked'}>`
    first.content = first.content.slice(found[0].length)
    block.children?.unshift(box)
  }
}

const HEADINGS = ['h1', 'h2', 'h3', 'h4', 'h5', 'h6']
const BLOCKS =
  'address blockquote br center caption dd details div dl dt figcaption figure hr li ol p pre summary table tbody td tfoot th thead tr ul'
const WORDS =
  'a abbr b bdo cite code del dfn em i img input ins kbd mark q rp rt ruby s samp small span strike strong sub sup time tt u var wbr'

const SAFE: sanitizeHtml.IOptions = {
  allowedTags: [...HEADINGS, ...BLOCKS.split(' '), ...WORDS.split(' ')],
  allowedAttributes: {
    a: ['href', 'title', 'rel'],
    img: ['src', 'alt', 'title', 'width', 'height'],
    input: ['type', 'disabled', 'checked'],
    details: ['open'],
    ol: ['start'],
    td: ['align', 'colspan', 'rowspan', 'style'],
    th: ['align', 'colspan', 'rowspan', 'style'],
    p: ['align'],
    div: ['align'],
    ...Object.fromEntries(HEADINGS.map((name) => [name, ['align']])),
  },
  allowedClasses: { code: [/^language-[\w+#-]{1,40}$/] },
  // As markdown-it aligns the cells of tables.
  allowedStyles: { '*': { 'text-align': [/^(?:left|right|center)$/] } },
  allowedSchemes: ['http', 'https', 'mailto'],
  allowedSchemesByTag: { img: ['http', 'https'] },
  allowProtocolRelative: false,
  disallowedTagsMode: 'discard',
  nestingLimit: 50,
  transformTags: {
    a: (tagName, attribs) => ({ tagName, attribs: { ...attribs, rel: 'nofollow' } }),
    input: (tagName, { checked }) => ({
      tagName,
      attribs: { type: 'checkbox', disabled: '', ...(checked !== undefined && { checked }) },
    }),
  },
}

/** The most characters that tokens may have: a short text can stand for a long one, by an address that it names often. */
const MAX_CHARACTERS = 1024 * 1024

function charactersIn(tokens: readonly Token[]): number {
  return tokens.reduce((sum, { content, attrs, children }) => {
    const named = (attrs ?? []).reduce((length, [, value]) => length + `${value}`.length, 0)
    return sum + (children === null ? content.length : charactersIn(children)) + named
  }, 0)
}

/**
 * The HTML of a text. Whatever it says, the HTML runs no script and has no form. Undefined: it would be too long. A
 * thread that runs out of memory ends the whole process, so the length is known before the HTML is made.
 */
export function renderMarkdown(markdown: Markdown): string | undefined {
  const parser = markdown.hardBreaks ? PARSERS.hard : PARSERS.soft
  const env = {}
  const tokens = parser.parse(markdown.text, env)
  linkReferences(tokens, markdown)
  showTasks(tokens)
  if (charactersIn(tokens) > MAX_CHARACTERS) return undefined
  return sanitizeHtml(parser.renderer.render(tokens, parser.options, env), SAFE)
}

/** A text of which only the words count. */
export interface Prose {
  prose: string
  /** As in `Markdown`. */
  site: string
}

/** The words of a text, without code, HTML and the texts of links. A link to an issue of this server is `owner/name#1`. */
export function proseOf({ prose, site }: Prose): string {
  return PARSERS.soft
    .parse(prose, {})
    .map(({ children }) => (children === null ? '' : wordsIn(children, site)))
    .join('\n')
}

function wordsIn(tokens: readonly Token[], site: string): string {
  let words = ''
  let links = 0
  for (const token of tokens) {
    if (token.type === 'link_open') {
      links += 1
      words += nameIn(`${token.attrGet('href')}`, site)
    } else if (token.type === 'link_close') links -= 1
    else if (links > 0) continue
    else if (token.type === 'text') words += token.content
    else if (token.type === 'softbreak' || token.type === 'hardbreak') words += '\n'
    else if (token.type === 'code_inline' || token.type === 'image') words += NO_PROSE
  }
  return words
}

/** The issue that a link leads to. */
function nameIn(href: string, site: string): string {
  const name = withShortNames(href.startsWith('/') ? `${site}${href}` : href, site)
  return name === href || name.includes(':') ? NO_PROSE : name
}
