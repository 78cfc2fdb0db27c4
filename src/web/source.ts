/** Directories and files of a repository at a branch, a tag or a commit. */
import { isUtf8 } from 'node:buffer'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { LRUCache } from 'lru-cache'
import type { Contents } from '../api/contents/contents.ts'
import { contentsIn, entriesOf, entryFor, MAX_CONTENT_BYTES, readingOf } from '../api/contents/contents-at.ts'
import { clientOf } from '../auth/requester.ts'
import { highlightInThread, renderInThread } from '../domain/markup/renderer.ts'
import { ErrorWithRefusal } from '../errors/refusal.ts'
import type { NamedCommit } from '../git/commits/named-commit.ts'
import { pathInUrl } from '../git/objects/byte-names.ts'
import { kindOf, nameOf } from '../git/trees/tree-entries.ts'
import type { Services } from '../services/services.ts'
import { servedAs, sniff } from '../storage/attachments/file-kind.ts'
import { subjectOf } from './commit-line.ts'
import { box, choiceLinks, codeBlock, emptyState, notice, pagination, time } from './components.ts'
import { bytesText, count } from './format.ts'
import type { Frame } from './repository-frame.ts'

/** Maximum number of entries of a directory on one page. */
const ENTRIES = 1000
/** Number of lines of a file on one page. */
const LINES = 2000
/** Maximum length of a line, in characters. */
const LINE_CHARACTERS = 2000
/** Maximum length of a rendered file, in characters. */
const MARKDOWN_CHARACTERS = 256 * 1024

/** Maximum size of a file with colors, in bytes. */
const MAX_COLORED = 128 * 1024

const README = /^readme(?:\.(?:md|markdown|mdown|mkd|txt))?$/i
const MARKDOWN_FILE = /\.(?:md|markdown|mdown|mkd)$/i

/** A commit by the name in the path, and what is shown of it. */
export interface SourcePlace {
  frame: Frame
  commit: NamedCommit
  /** Of a file or directory; empty for the root. */
  path: string
}

/** The request, its services, and what it asks for. */
export interface SourceRequest {
  services: Services
  request: FastifyRequest
  reply: FastifyReply
  /** 1 is the first page. */
  page: number
  /** Whether a file of Markdown is shown as it is. */
  asSource: boolean
}

/** The address of a path at the commit. `word`: `src`, `raw` or `commits`. */
export function addressAt({ frame, commit }: Omit<SourcePlace, 'path'>, word: string, path = ''): string {
  const at = `${frame.path}/${word}/${commit.kind}/${pathInUrl(commit.name)}`
  return path === '' ? at : `${at}/${pathInUrl(path)}`
}

/** Links to the directories on the way to a path. */
export function pathLinks(place: SourcePlace): string {
  const parts = place.path.split('/').filter((part) => part !== '')
  const link = (path: string, text: string) =>
    html`<li><a href="${addressAt(place, 'src', path)}"><bdi>${text}</bdi></a></li>`
  const links = parts.map((part, i) =>
    i === parts.length - 1
      ? html`<li><span aria-current="page"><bdi>${part}</bdi></span></li>`
      : link(parts.slice(0, i + 1).join('/'), part),
  )
  return html`<nav aria-label="Path"><ol class="crumbs">!${link('', place.frame.repository.name)}!${links}</ol></nav>`
}

/** The content of a page for a path: a table, below the markup `head`, or a file. @throws Refused (not found) */
export async function sourceAt(asked: SourceRequest, place: SourcePlace, head = ''): Promise<string> {
  const { services, request, reply } = asked
  const { repository } = place.frame
  const at = { repository, publicUrl: services.publicUrl(), commit: place.commit }
  const { entry, parts } = await entryFor(services, at, place.path)
  const reading = readingOf(services, request, reply)
  const wanted = { content: true, lastCommit: false }
  if (kindOf(entry) !== 'dir') {
    const [file] = await contentsIn(reading, at, parts.slice(0, -1), [entry], wanted)
    return file === undefined ? '' : fileView(asked, { ...place, path: parts.join('/') }, file)
  }
  const tree = await entriesOf(services, at, entry)
  const { page } = asked
  const entries = tree.page((page - 1) * ENTRIES, ENTRIES)
  const rows = await contentsIn(reading, at, parts, entries, {
    content: false,
    lastCommit: true,
    message: true,
  })
  const table = directoryTable(place, rows, head)
  const pages = pagination(
    { page, limit: ENTRIES, total: tree.size },
    (to) => `${addressAt(place, 'src', place.path)}?page=${to}`,
  )
  const readme = entries.find((one) => kindOf(one) === 'file' && README.test(nameOf(one)))
  if (readme === undefined) return `${table}${pages}`
  const [file] = await contentsIn(reading, at, parts, [readme], wanted)
  const text = file && textOf(bytesOf(file))
  if (file === undefined || text === undefined) return `${table}${pages}`
  const shown = MARKDOWN_FILE.test(file.name) ? await rendered(asked, place, file, text) : codeBlock(text)
  return `${table}${pages}${box(html`<h2><a class="quiet-link" href="${addressAt(place, 'src', file.path)}">${file.name}</a></h2>`, shown)}`
}

const KINDS: Readonly<Record<string, string>> = { dir: 'directory', symlink: 'link', submodule: 'submodule' }

function directoryTable(place: SourcePlace, rows: readonly Contents[], head: string): string {
  const inOrder = [...rows.filter(({ type }) => type === 'dir'), ...rows.filter(({ type }) => type !== 'dir')]
  const up = place.path.replace(/\/?[^/]*$/, '')
  const parent =
    place.path === ''
      ? ''
      : html`<tr class="is-dir"><th scope="row" colspan="3"><a href="${addressAt(place, 'src', up)}" aria-label="Parent directory">..</a></th></tr>`
  if (rows.length === 0 && parent === '') return emptyState('This directory is empty')
  return html`<div class="box">!${head && `<div class="box-head">${head}</div>`}<table class="tree"><caption class="aside">Files and directories</caption><tbody>
!${parent}!${inOrder.map((row) => directoryRow(place, row))}</tbody></table></div>`
}

function directoryRow(place: SourcePlace, row: Contents): string {
  const {
    name,
    path,
    type,
    last_commit_sha: sha,
    last_commit_message: message = '',
    last_committer_date: date = '',
  } = row
  const kind = KINDS[type]
  const shown =
    type === 'submodule'
      ? html`<bdi>${name}</bdi>`
      : html`<a href="${addressAt(place, 'src', path)}"><bdi>${name}</bdi>!${type === 'dir' ? '/' : ''}</a>`
  const commit =
    sha === undefined
      ? ''
      : html`<a href="${place.frame.path}/commit/${sha}" dir="auto">${subjectOf(message)}</a>`
  return html`<tr!${type === 'dir' ? ' class="is-dir"' : ''}><th scope="row">!${shown}!${kind === undefined || type === 'dir' ? '' : html` <span class="soft">${kind}</span>`}</th><td class="optional">!${commit}</td><td class="when">!${time(date)}</td></tr>
`
}

const bytesOf = ({ content }: Contents): Buffer | undefined =>
  content === null ? undefined : Buffer.from(content, 'base64')

/** The text of a file; undefined for a binary file, or one that is too large. */
function textOf(bytes: Buffer | undefined): string | undefined {
  return bytes !== undefined && isUtf8(bytes) && !bytes.includes(0) ? bytes.toString('utf8') : undefined
}

const PICTURE_FILE = /\.(?:png|jpe?g|gif|webp|avif)$/i

/** Whether a browser shows the file as a picture. Only a large file is judged by its name. */
async function isPicture(name: string, bytes: Buffer | undefined): Promise<boolean> {
  if (bytes === undefined) return PICTURE_FILE.test(name)
  const { type, disposition } = servedAs(name, await sniff(bytes))
  return type.startsWith('image/') && disposition === 'inline'
}

async function fileView(asked: SourceRequest, place: SourcePlace, file: Contents): Promise<string> {
  const raw = addressAt(place, 'raw', file.path)
  const own = addressAt(place, 'src', file.path)
  const bytes = bytesOf(file)
  const text = textOf(bytes)
  const isMarkdown = text !== undefined && MARKDOWN_FILE.test(file.name)
  const ways = isMarkdown
    ? choiceLinks('Ways to show the file', [
        { href: own, text: 'Rendered', isCurrent: !asked.asSource },
        { href: `${own}?display=source`, text: 'Source', isCurrent: asked.asSource },
      ])
    : ''
  const lines = text?.replace(/\n$/, '').split(/\r?\n/) ?? []
  const size = [
    ...(text === undefined ? [] : [count(text === '' ? 0 : lines.length, 'line')]),
    bytesText(file.size),
  ]
  const head = html`<span>${size.join(', ')}</span>!${ways}<span class="end choices"><a href="${raw}">Raw</a><a href="${addressAt(place, 'commits', file.path)}">History</a></span>`
  if (file.type === 'symlink')
    return box(head, html`<p>A link to <code><bdi>${file.target ?? ''}</bdi></code></p>`)
  if (file.type === 'submodule') return box(head, html`<p>A submodule at commit <code>${file.sha}</code></p>`)
  if (await isPicture(file.name, bytes))
    return box(head, html`<img class="picture" src="${raw}" alt="${file.name}">`)
  if (text === undefined) {
    const reason =
      file.size > MAX_CONTENT_BYTES ? 'This file is too large to be shown' : 'This is a binary file'
    return box(head, emptyState(reason, html`<a href="${raw}">Download ${bytesText(file.size)}</a>`))
  }
  if (isMarkdown && !asked.asSource) return box(head, await rendered(asked, place, file, text))
  if (text === '') return box(head, emptyState('This file is empty'))
  const query = isMarkdown ? 'display=source&' : ''
  const pages = pagination(
    { page: asked.page, limit: LINES, total: lines.length },
    (to) => `${own}?${query}page=${to}`,
  )
  return html`<section class="box"><div class="box-head">!${head}</div>!${lineTable(lines, asked.page, await colored(asked, place, file, lines))}</section>!${pages}`
}

/** The lines as HTML with colors; undefined while the thread is busy, and for a file without colors. */
async function colored(
  { services, request }: SourceRequest,
  { frame }: SourcePlace,
  file: Contents,
  lines: readonly string[],
): Promise<readonly string[] | undefined> {
  if (file.size > MAX_COLORED || lines.some(({ length }) => length > LINE_CHARACTERS)) return undefined
  const key = `${frame.repository.id} ${file.sha} ${file.name}`
  const known = colors.get(key)
  if (known !== undefined) return known.split('\n')
  try {
    const code = { code: lines.join('\n'), fileName: file.name }
    const markup = await highlightInThread(clientOf(request), code)
    if (markup !== undefined) colors.set(key, markup.join('\n'))
    return markup
  } catch (error) {
    if (!(error instanceof ErrorWithRefusal)) throw error
    services.log.debug({ err: error }, 'a file is shown without colors')
    return undefined
  }
}

/** `markup`: the lines as HTML, if they have colors. */
function lineTable(lines: readonly string[], page: number, markup: readonly string[] | undefined): string {
  const first = (page - 1) * LINES
  const rows = lines.slice(first, first + LINES).map((line, i) => {
    const number = first + i + 1
    const cut = line.length > LINE_CHARACTERS ? '…' : ''
    return html`<tr id="L${number}"><td class="n"><a href="#L${number}">${number}</a></td><td class="code">!${markup?.[number - 1] ?? html`${line.slice(0, LINE_CHARACTERS)}${cut}`}</td></tr>
`
  })
  return html`<table class="lines"><caption class="aside">Lines of the file</caption><tbody>
!${rows}</tbody></table>`
}

const ofText = {
  maxSize: 8 * 1024 * 1024,
  sizeCalculation: (text: string, key: string) => text.length + key.length,
}
/** Lines with colors, by repository, blob and name. */
const colors = new LRUCache<string, string>(ofText)
/** Rendered files by their blobs and places: a first page is asked for often. */
const files = new LRUCache<string, string>(ofText)

/** A file of Markdown as HTML. Its text is shown as it is while the thread is busy, or when it is too long. */
async function rendered(
  { services, request }: SourceRequest,
  place: SourcePlace,
  file: Contents,
  text: string,
): Promise<string> {
  const directory = file.path.replace(/[^/]*$/, '')
  const links = `${addressAt(place, 'src')}/${pathInUrl(directory)}`
  const key = `${file.sha} ${links}`
  const known = files.get(key)
  if (known !== undefined) return known
  const images = `${addressAt(place, 'raw')}/${pathInUrl(directory)}`
  const where = { site: services.publicUrl(), repository: place.frame.fullName }
  try {
    const markup = await renderInThread(clientOf(request), {
      text: text.slice(0, MARKDOWN_CHARACTERS),
      hardBreaks: false,
      page: { links, images },
      ...where,
    })
    const shown = `<div class="prose rendered" dir="auto">${markup}</div>`
    if (text.length > MARKDOWN_CHARACTERS)
      return `${notice('warning', 'Only the beginning of this file is shown.')}${shown}`
    files.set(key, shown)
    return shown
  } catch (error) {
    if (!(error instanceof ErrorWithRefusal)) throw error
    return codeBlock(text.slice(0, MARKDOWN_CHARACTERS))
  }
}
