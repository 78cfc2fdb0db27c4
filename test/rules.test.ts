/** Checks `docs/rules/`: each rule is whole and has a test, and each citation names a rule. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

const filesBelow = (directory: string) =>
  readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|md)$/.test(path))
    .map((path) => join(directory, path))

interface Rule {
  name: string
  title: string
  text: string
  page: string
}

const pages = filesBelow('docs/rules')
const sectionsOf = (page: string) =>
  read(page)
    .split(/^(?=#)/m)
    .filter((section) => section.startsWith('### '))
const rules: Rule[] = pages.flatMap((page) =>
  sectionsOf(page).map((section) => {
    const [, name = '', title = '', text = ''] = /^### (\S+): (.+)\n([\s\S]*)/.exec(section) ?? []
    return { name, title, text, page }
  }),
)
const names = new Set(rules.map(({ name }) => name))

/** The first words of rule names: only texts that begin with one of them count as citations. */
const areas = [...new Set(rules.map(({ name }) => name.split('.')[0] ?? ''))]
const CITATION = new RegExp(`\\b(?:${areas.join('|')})(?:\\.[a-z]+)*\\.\\d+\\b`, 'g')
const citedIn = (text: string) => text.match(CITATION) ?? []

/** The titles of the tests in a file: the first text argument of a function that declares a test. */
const titlesIn = (path: string) =>
  [...read(path).matchAll(/\b(?:test|specify|eachPull|always)\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*)\1/g)].map(
    ([, , title = '']) => title,
  )

t.test('each rule has its own name, a title, a text and a status', async (t) => {
  t.strictSame(
    rules.map(({ name }) => name).filter((name, i, all) => all.indexOf(name) !== i),
    [],
    'no name is used twice',
  )
  const statuses = new Set('none every 200 201 204 304 400 401 403 404 405 409 412 413 422 500'.split(' '))
  const broken = rules.filter(({ name, title, text }) => {
    const [, status = ''] = /^Status: (\w+)/m.exec(text) ?? []
    return !/^[a-z]+(\.[a-z]+)*\.\d+$/.test(name) || title === '' || !statuses.has(status)
  })
  t.strictSame(
    broken.map(({ name, page }) => `${page}: ${name}`),
    [],
    'a heading "### name: title", and a line that begins with "Status:" and a code',
  )
})

t.test('docs/rules.md lists each page, with each group of its rules', async (t) => {
  const index = read('docs/rules.md').split('\n')
  const missing = rules.filter(({ name, page }) => {
    const row = index.find((line) => line.includes(`(${page.slice('docs/'.length)}) |`)) ?? ''
    return !row.includes(`\`${name.replace(/\.\d+$/, '')}\``)
  })
  t.strictSame(missing, [])
})

t.test('each rule is cited by the title of a test', async (t) => {
  const tested = new Set(filesBelow('test').flatMap(titlesIn).flatMap(citedIn))
  t.strictSame(
    [...names].filter((name) => !tested.has(name)),
    [],
  )
})

t.test('each citation in code, tests and documents names a rule', async (t) => {
  const documents = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...filesBelow('docs')]
  const citations = [...documents, ...['src', 'test'].flatMap(filesBelow)].flatMap((path) => {
    const text = read(path)
    const unnamed =
      text.match(/\b(?:create|edit|merge|search|update|attachments?|listings?) rules? \d/gi) ?? []
    return [...citedIn(text).filter((name) => !names.has(name)), ...unnamed].map((name) => `${path}: ${name}`)
  })
  t.strictSame(citations, [])
})
