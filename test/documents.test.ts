/** Keeps the documents true: the files, commands, settings, links and citations in them exist. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type SettingName, settings } from '../src/config/setting-table.ts'
import { checkGeneratedPart } from './generated-part.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const at = (path: string) => join(ROOT, path)
const read = (path: string) => readFileSync(at(path), 'utf8')

/** Paths of all files below a directory of the repository, from its root. */
function filesBelow(directory: string): string[] {
  return readdirSync(at(directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length))
}

interface Document {
  path: string
  text: string
}

const DOCUMENTS: readonly Document[] = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...filesBelow('docs').filter((path) => path.endsWith('.md')),
].map((path) => ({ path, text: read(path) }))

const withoutBlocks = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, '')

const inBackticks = ({ text }: Document) =>
  [...withoutBlocks(text).matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

const found = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name = '']) => name)

const TOP = readdirSync(ROOT, { withFileTypes: true })
const TOP_DIRECTORIES = new Set(
  TOP.filter((entry) => entry.isDirectory() && entry.name !== 'dist').map(({ name }) => name),
)

/**
 * Whether it can only be a path in the repository. Other paths, such as `views.db`, are in a data directory; `highlight.js` is
 * a package.
 */
function isRepositoryPath(code: string): boolean {
  if (!/^[\w.@<>*/-]+$/.test(code)) return false
  const [first = '', ...rest] = code.split('/')
  if (rest.length > 0 && TOP_DIRECTORIES.has(first) && !['git', 'data'].includes(first)) return true
  return code !== 'highlight.js' && /[\w>*-]\.(ts|js|md|yml)$/.test(code)
}

/** Up to the first placeholder: `src/commands` of `src/commands/<aggregate>/`. */
function certainPart(path: string): string {
  const parts = path.split('/')
  const open = parts.findIndex((part) => /[<>*]/.test(part))
  return (open === -1 ? parts : parts.slice(0, open)).join('/')
}

/** The anchor of a heading, as in GitHub, Gitea and Forgejo. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const anchorsOf = (path: string) => new Set(found(withoutBlocks(read(path)), /^#+ (.+)$/gm).map(anchorOf))

/** The reason why a link or citation is dead; undefined for a valid one. */
function brokenLink(path: string, anchor: string | undefined): string | undefined {
  if (!existsSync(at(path))) return `${path} does not exist`
  if (anchor === undefined) return undefined
  return anchorsOf(path).has(anchor) ? undefined : `${path} has no heading #${anchor}`
}

/** The problems of all documents, each with its document's path. */
const inAll = (problemsOf: (document: Document) => readonly string[]) =>
  DOCUMENTS.flatMap((document) => problemsOf(document).map((problem) => `${document.path}: ${problem}`))

t.test('every file that a document names exists', async (t) => {
  const problems = inAll((document) => {
    const inCommands = found(document.text, /node (?:test\/run\.ts )?([\w.*-]+\/[\w./*-]+)/g)
    const named = [...inBackticks(document).filter(isRepositoryPath), ...inCommands]
    return named.filter((name) => !existsSync(at(certainPart(name))))
  })
  t.strictSame(problems, [])
})

t.test('every command that a document names exists', async (t) => {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(read('package.json'))
  const problems = inAll(({ text }) => {
    const npm = [...found(text, /npm run (?:-s )?([\w:]+[\w:-]*)/g), ...found(text, /npm (start|test)\b/g)]
    const mergelog = found(text, /(?:npm run (?:-s )?mergelog -- |`mergelog )([a-z]+(?:-[a-z]+)*)/g)
    return [
      ...npm.filter((name) => !Object.hasOwn(scripts, name)),
      ...mergelog.filter((name) => !existsSync(at(`src/cli/commands/${name}.ts`))),
    ]
  })
  t.strictSame(problems, [])
})

t.test('every setting that a document names exists', async (t) => {
  const known = new Set<string>([
    ...settings.map(({ name }) => name),
    ...['MERGELOG_TOKEN', 'TEST_EVENTSTORE_URL', 'TEST_MONGODB_URL', 'PROPERTY_SEED', 'PROPERTY_RUNS'],
    ...['FAULTS_EFFECTS', 'SHARED_FAULTS_SEED', 'SHARED_FAULTS_STEPS', 'UPDATE_DOCS'],
    // A gRPC status.
    'RESOURCE_EXHAUSTED',
  ])
  const problems = inAll(({ text }) =>
    found(text, /\b([A-Z]{2,}(?:_[A-Z]+)+)\b/g).filter((name) => !known.has(name)),
  )
  t.strictSame(problems, [])
})

t.test('every link in a document leads to a file and a heading that exist', async (t) => {
  const problems = inAll(({ path, text }) =>
    found(withoutBlocks(text), /\]\(([^)\s]+)\)/g)
      .filter((target) => !/^https?:/.test(target))
      .flatMap((target) => {
        const [file = '', anchor] = target.split('#')
        return brokenLink(file === '' ? path : normalize(join(dirname(path), file)), anchor) ?? []
      }),
  )
  t.strictSame(problems, [])
})

t.test('the table of commands in docs/operations.md names each command once', async (t) => {
  const operations = read('docs/operations.md')
  const table = operations.slice(operations.indexOf('| command |'), operations.indexOf('## Backup'))
  const named = found(table, /^\| (`.*?) \|/gm).flatMap((cell) => found(cell, /`([a-z]+(?:-[a-z]+)*)/g))
  const files = readdirSync(at('src/cli/commands'))
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replace(/\.ts$/, ''))
  t.strictSame(named.toSorted(), files.toSorted())
})

t.test('docs/architecture.md has a row for each folder of src/', async (t) => {
  const text = read('docs/architecture.md')
  const folders = readdirSync(at('src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  t.strictSame(
    folders.map(({ name }) => `\`src/${name}/\``).filter((name) => !text.includes(name)),
    [],
  )
})

t.test('docs/decisions/README.md lists every decision', async (t) => {
  const listed = found(read('docs/decisions/README.md'), /\]\(([\w-]+\.md)\)/g)
  const files = readdirSync(at('docs/decisions')).filter((name) => name !== 'README.md')
  t.strictSame(listed.toSorted(), files.toSorted())
})

const CODE = [
  ...['src', 'test', 'bench', 'scripts', 'bin', 'ui', '.ci', '.github'].flatMap(filesBelow),
  ...TOP.filter((entry) => entry.isFile() && !entry.name.endsWith('.md')).map(({ name }) => name),
].filter((path) => /(\.([cm]?[jt]s|ya?ml|json|css)|\/run)$/.test(path) && path !== 'package-lock.json')

t.test('every citation of docs/ in the code leads to a file and a heading that exist', async (t) => {
  const problems = CODE.flatMap((path) =>
    [...read(path).matchAll(/\b(docs\/[\w/-]+\.md)(?:#([\w-]+))?/g)].flatMap(([, file = '', anchor]) => {
      const problem = brokenLink(file, anchor)
      return problem === undefined ? [] : `${path}: ${problem}`
    }),
  )
  t.strictSame(problems, [])
})

t.test('every cited document is in the repository', async (t) => {
  // In brackets, so that this file does not match.
  const elsewhere = /\b[D]ESIGN\b|\.\.\/[s]hared\/|\b[H]OUSE\.md|\b[N]OTES\.md|[`"' (/][s]pec\/[\w-]+\.md/
  const hits = [...CODE, ...DOCUMENTS.map(({ path }) => path)].flatMap((path) =>
    read(path)
      .split('\n')
      .flatMap((line, i) => (elsewhere.test(line) ? `${path}:${i + 1}: ${line.trim()}` : [])),
  )
  t.strictSame(hits, [])
})

t.test('docs/stores.md and the page on the write side name the streams of every kind', async (t) => {
  const [streams = ''] = read('src/events/streams.ts').split('export const claimKeys')
  const kinds = new Set(found(streams, /`([a-z]+(?:-[a-z]+)*-)\$\{/g))
  t.ok(kinds.has('ssh-key-') && kinds.has('claim-'))
  for (const path of ['docs/stores.md', 'docs/architecture/write-side.md']) {
    const text = read(path)
    t.strictSame(
      [...kinds].filter((kind) => !text.includes(`\`${kind}`)),
      [],
      path,
    )
  }
})

/** The settings in README. */
const TEN: readonly SettingName[] = [
  ...(['HOST', 'PORT', 'GRPC_PORT', 'DATA_DIR', 'PUBLIC_URL'] as const),
  ...(['ADMIN_PASSWORD', 'TRUST_PROXY', 'EVENTSTORE_URL', 'MONGODB_URL', 'LOG_LEVEL'] as const),
]

/** The settings as a Markdown table. */
function settingsTable(shown: typeof settings): string {
  const rows = shown.map(({ name, default: standard, meaning }) => {
    const value = standard === '' ? '' : `\`${standard}\``
    return `| \`${name}\` | ${value} | ${meaning} |\n`
  })
  return `| setting | default | meaning |\n| --- | --- | --- |\n${rows.join('')}`
}

t.test('docs/configuration.md has all settings, and README has ten of them', async (t) => {
  await checkGeneratedPart(t, 'docs/configuration.md', 'settings', settingsTable(settings))
  const ten = settings.filter(({ name }) => TEN.includes(name))
  t.equal(ten.length, 10)
  await checkGeneratedPart(t, 'README.md', 'ten settings', settingsTable(ten))
})

t.test('docs/dependencies.md names every dependency and no other', async (t) => {
  const {
    dependencies,
    devDependencies,
  }: Record<string, Record<string, string>> = JSON.parse(read('package.json'))
  const named = found(read('docs/dependencies.md'), /^\| `([^`]+)` \| \S/gm)
  t.strictSame(named.toSorted(), Object.keys({ ...dependencies, ...devDependencies }).toSorted())
})

t.test('README has at most 9 KB, the architecture 14 KB, and an image 150 KB', async (t) => {
  const bytes = (path: string) => statSync(at(path)).size
  t.ok(bytes('README.md') <= 9 * 1024)
  t.ok(bytes('docs/architecture.md') <= 14 * 1024)
  for (const image of filesBelow('docs/images')) t.ok(bytes(image) <= 150 * 1024, image)
})
