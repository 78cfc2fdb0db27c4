/**
 * Parses issue templates and their configuration, in Gitea's formats. Runs in a thread, see `template-reader.ts`: YAML of
 * some kilobytes may take half a second. Pure.
 */
import { parse } from 'yaml'

interface TemplateField {
  type: string
  id: string
  attributes: Record<string, unknown>
  validations: Record<string, unknown>
  visible: string[]
}

export interface IssueTemplate {
  name: string
  title: string
  about: string
  labels: string[]
  assignees: string[]
  ref: string
  /** The text of a Markdown template. */
  content: string
  /** The fields of a form. */
  body: TemplateField[]
  file_name: string
}

export interface IssueConfig {
  blank_issues_enabled: boolean
  contact_links: { name: string; url: string; about: string }[]
}

const FIELD_TYPES = new Set(['markdown', 'textarea', 'input', 'dropdown', 'checkboxes'])

type Properties = Readonly<Record<string, unknown>>

const propertiesOf = (value: unknown): Properties =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? `${value}` : ''

/** Reads a list, or a text with words separated by commas. */
function wordsOf(value: unknown): string[] {
  const words = Array.isArray(value) ? value.map(textOf) : textOf(value).split(',')
  return words.map((word) => word.trim()).filter((word) => word !== '')
}

/** Parses a YAML object. @throws an error with the reason */
function yamlOf(text: string): Properties {
  const value: unknown = parse(text, { prettyErrors: false, logLevel: 'silent' })
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('is not a mapping')
  return propertiesOf(value)
}

/** Returns the front matter of a Markdown file between two lines of dashes, and the rest; undefined without one. */
function headOf(content: string): { head: Properties; rest: string } | undefined {
  const [whole, head] = /^\uFEFF?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)/s.exec(content) ?? []
  if (whole === undefined || head === undefined) return undefined
  try {
    return { head: yamlOf(head), rest: content.slice(whole.length) }
  } catch {
    // The dashes are Markdown's horizontal rules.
    return undefined
  }
}

function fieldOf(given: unknown, position: number): TemplateField | undefined {
  const { type, id, attributes, validations, visible } = propertiesOf(given)
  if (typeof type !== 'string' || !FIELD_TYPES.has(type)) return undefined
  return {
    type,
    id: textOf(id) || `${position}`,
    attributes: propertiesOf(attributes),
    validations: propertiesOf(validations),
    visible: wordsOf(visible),
  }
}

/** Parses a template; undefined for an invalid one, which is not offered. */
export function templateIn(fileName: string, content: string): IssueTemplate | undefined {
  const isForm = !/\.md$/i.test(fileName)
  const found = isForm ? formIn(content) : (headOf(content) ?? withoutHead(fileName, content))
  if (found === undefined) return undefined
  const { head, rest } = found
  const fields = isForm && Array.isArray(head.body) ? head.body.map(fieldOf) : []
  const body = fields.filter((field) => field !== undefined)
  const [name, about] = [textOf(head.name), textOf(head.about) || textOf(head.description)]
  if (name.trim() === '' || about.trim() === '') return undefined
  if (isForm && (body.length === 0 || body.length < fields.length)) return undefined
  const ref = textOf(head.ref)
  return {
    name,
    title: textOf(head.title),
    about,
    labels: wordsOf(head.labels),
    assignees: wordsOf(head.assignees),
    ref: ref === '' || ref.startsWith('refs/') ? ref : `refs/heads/${ref}`,
    content: rest,
    body,
    file_name: fileName,
  }
}

function formIn(content: string): { head: Properties; rest: string } | undefined {
  try {
    return { head: yamlOf(content), rest: '' }
  } catch {
    return undefined
  }
}

/** Like Gitea, a Markdown file without front matter is a template with the name of the file. */
const withoutHead = (fileName: string, content: string): { head: Properties; rest: string } => ({
  head: { name: fileName.split('/').at(-1) ?? fileName, about: content.slice(0, 80) },
  rest: content,
})

/** Parses a configuration, or returns its problem. */
export function configIn(content: string): IssueConfig | string {
  try {
    const given = yamlOf(content)
    const links = Array.isArray(given.contact_links) ? given.contact_links.map(propertiesOf) : []
    for (const [i, link] of links.entries()) {
      const missing = ['name', 'url', 'about'].find((key) => textOf(link[key]) === '')
      if (missing !== undefined) return `contact_link at position ${i + 1} is missing ${missing} key`
      if (!URL.canParse(textOf(link.url))) return `${textOf(link.url)} is not a valid URL`
    }
    return {
      blank_issues_enabled: given.blank_issues_enabled !== false,
      contact_links: links.map(({ name, url, about }) => ({
        name: textOf(name),
        url: textOf(url),
        about: textOf(about),
      })),
    }
  } catch (error) {
    return error instanceof Error ? error.message : 'is not valid YAML'
  }
}
