/** Renders Markdown as safe HTML. Runs in a thread, see `renderer.ts`. */
import MarkdownIt, { type Token } from 'markdown-it'
import sanitizeHtml from 'sanitize-html'
import { NO_PROSE, NUMBER_REFERENCE, REFERENCE_BEGIN, REFERENCE_END, withShortNames } from './references.ts'

/** A text with the context of its references. */
export interface Markdown {
  text: string
  /** Whether each line break counts, as in comments. */
  hardBreaks: boolean
  /** The server's URL without a trailing slash, for mentions of users. */
  site: string
  /** `owner/name` of the repository for short references; null: none. */
  repository: string | null
  /** For a page of this server: see `PageMarkup`. Absent: the HTML may be shown anywhere. */
  page?: PageMarkup
}

/**
 * A page has no inline styles and no images of other hosts, which become links. `links`, `images`: the paths to which
 * relative links and images lead, with a slash at the end; absent: they stay as they are.
 */
interface PageMarkup {
  links?: string
  images?: string
}

const parserWith = (breaks: boolean) => {
  const markdown = new MarkdownIt({ html: true, linkify: true, breaks })
  // File names end like domains, so only complete URLs become links.
  markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false })
  return markdown
}
const PARSERS = { soft: parserWith(false), hard: parserWith(true) }

/**
 * Linked references: `owner/name#1`, `#1` or `!1`, `@login`, a commit by at least seven digits. It begins at the beginning
 * of a word and has bounded parts, so that it takes linear time.
 */
const REFERENCE = new RegExp(
  String.raw`${REFERENCE_BEGIN}(?:${NUMBER_REFERENCE}|@(?<login>\w[\w.-]{0,38}\w|\w)|(?<commit>[0-9a-f]{7,40}))${REFERENCE_END}`,
  'g',
)

/** Returns the URL of a reference; undefined without one. */
function addressOf(groups: Readonly<Record<string, string | undefined>>, { site, repository }: Markdown) {
  const { other, index, login, commit } = groups
  if (login !== undefined) return `${site}/${login}`
  const place = other ?? repository
  if (place === null) return undefined
  if (index !== undefined) return `${site}/${place}/issues/${index}`
  // Without a letter it may be a number.
  return commit === undefined || !/[a-f]/.test(commit) ? undefined : `${site}/${place}/commit/${commit}`
}

/** Returns the text of a token, with its references as links. */
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

/** Links the references in the texts of all tokens, except in links and in code. */
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

/** Renders `- [x] done` as a disabled checkbox. */
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
  // markdown-it's alignment of table cells.
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

/** Resolves an address against a path of the server. An invalid address, or one of another host, stays as it is. */
function resolved(address: string, path: string | undefined): string {
  const host = 'http://host.invalid'
  if (path === undefined || address.startsWith('#') || !URL.canParse(address, host + path)) return address
  const url = new URL(address, host + path)
  return url.origin === host ? url.pathname + url.search + url.hash : address
}

const ALIGNED = /text-align:\s*(left|right|center)/

/** The rules for HTML on a page of this server. */
function safeOnPage({ links, images }: PageMarkup, site: string): sanitizeHtml.IOptions {
  const cell = (tagName: string, { style = '', ...attribs }: sanitizeHtml.Attributes) => {
    const [, align] = ALIGNED.exec(style) ?? []
    return { tagName, attribs: { ...attribs, ...(align && { align }) } }
  }
  return {
    ...SAFE,
    allowedAttributes: { ...SAFE.allowedAttributes, input: ['type', 'disabled', 'checked', 'aria-label'] },
    transformTags: {
      input(tagName, { checked }) {
        const attribs = {
          type: 'checkbox',
          disabled: '',
          'aria-label': checked === undefined ? 'to do' : 'done',
        }
        return { tagName, attribs: { ...attribs, ...(checked !== undefined && { checked }) } }
      },
      td: cell,
      th: cell,
      a: (tagName, { href = '', ...attribs }) => ({
        tagName,
        attribs: { ...attribs, href: resolved(href, links), rel: 'nofollow' },
      }),
      img(tagName, { src = '', ...attribs }) {
        const isOwn = src.startsWith(`${site}/`) || !/^(?:[a-z][a-z\d+.-]*:|\/\/)/i.test(src)
        if (isOwn)
          return { tagName, attribs: { ...attribs, src: resolved(src, images), alt: attribs.alt ?? '' } }
        return { tagName: 'a', attribs: { href: src, rel: 'nofollow' }, text: attribs.alt || 'image' }
      },
    },
  }
}

/** Removes links inside links, which images in links have become: HTML has no such links. */
function withoutNestedLinks(markup: string): string {
  let depth = 0
  return markup.replaceAll(/<a(?=[\s>])[^>]*>|<\/a>/g, (tag) => {
    if (tag !== '</a>') depth += 1
    const isInner = depth > 1
    if (tag === '</a>') depth -= 1
    return isInner ? '' : tag
  })
}

/** Maximum number of characters of all tokens: a short text can expand by naming a long URL often. */
const MAX_CHARACTERS = 1024 * 1024

function charactersIn(tokens: readonly Token[]): number {
  return tokens.reduce((sum, { content, attrs, children }) => {
    const named = (attrs ?? []).reduce((length, [, value]) => length + `${value}`.length, 0)
    return sum + (children === null ? content.length : charactersIn(children)) + named
  }, 0)
}

/**
 * Renders a text as HTML without scripts and forms; undefined when it would be too long. The length is checked before
 * rendering, because a thread that runs out of memory ends the whole process.
 */
export function renderMarkdown(markdown: Markdown): string | undefined {
  const parser = markdown.hardBreaks ? PARSERS.hard : PARSERS.soft
  const env = {}
  const tokens = parser.parse(markdown.text, env)
  linkReferences(tokens, markdown)
  showTasks(tokens)
  if (charactersIn(tokens) > MAX_CHARACTERS) return undefined
  const { page, site } = markdown
  const rendered = parser.renderer.render(tokens, parser.options, env)
  if (page === undefined) return sanitizeHtml(rendered, SAFE)
  return withoutNestedLinks(sanitizeHtml(rendered, safeOnPage(page, site)))
}

/** A text of which only the words matter. */
export interface Prose {
  prose: string
  /** As in `Markdown`. */
  site: string
}

/**
 * Returns the words of a text, without code, HTML and the texts of links. A link to an issue of this server becomes
 * `owner/name#1`.
 */
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

/** Returns the short name of the issue that a link leads to, or a placeholder. */
function nameIn(href: string, site: string): string {
  const name = withShortNames(href.startsWith('/') ? `${site}${href}` : href, site)
  return name === href || name.includes(':') ? NO_PROSE : name
}
