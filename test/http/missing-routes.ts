/** Finds routes of Gitea's API that Mergelog lacks: routes of `gitea-js` that are not documented here. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Documentation, operationsOf } from './documented.ts'

const types = () =>
  readFileSync(
    createRequire(import.meta.url)
      .resolve('gitea-js')
      .replace(/js$/, 'd.ts'),
    'utf8',
  )

/** All routes that `gitea-js` has a function for: `GET /repos/{owner}/{repo}`. */
export function giteaRoutes(): { method: string; path: string }[] {
  return [...types().matchAll(/^\s*\* @request ([A-Z]+):(\S+)$/gm)].map(([, method = '', path = '']) => ({
    method,
    path,
  }))
}

/** Returns a pattern for paths that differ only in the names of parameters. */
function patternOf(path: string): RegExp {
  const parts = path.split('/').map((part) => {
    // Matches a parameter with its suffix, never a fixed word.
    if (part === '{*}') return '\\{[^/]*\\}.*'
    return part
      .split(/(\{[^}]*\})/)
      .map((piece) => (piece.startsWith('{') ? '\\{[^/]*\\}' : RegExp.escape(piece)))
      .join('')
  })
  return new RegExp(`^${parts.join('/')}$`)
}

/** The names of fields in a type of `gitea-js`. */
function fieldsOf(type: string): string[] {
  const [, text = ''] = new RegExp(`interface ${type} \\{\\n([\\s\\S]*?)\\n\\}`).exec(types()) ?? []
  return [...text.matchAll(/^ {4}(\w+)\??:/gm)].map(([, name = '']) => name)
}

/** The path without the names of its parameters. */
const shapeOf = (path: string) => path.replaceAll(/\{[^}]*\}/g, '{}')

const OF_GITEA = /@request ([A-Z]+):(\S+)\n[\s\S]*?\*\/\s*\w+: \(([\s\S]*?)params\?: RequestParams\)/g

/** Body and query fields of existing operations that `gitea-js` has and Mergelog lacks. */
export function giteaFields(documentation: Documentation) {
  const here = operationsOf(documentation).flatMap(({ method, path, operation }) =>
    path.startsWith('/api/v1/')
      ? [
          {
            method: method.toUpperCase(),
            shape: shapeOf(path.slice('/api/v1'.length)),
            pattern: patternOf(path.slice('/api/v1'.length)),
            operation,
          },
        ]
      : [],
  )
  return [...types().matchAll(OF_GITEA)].flatMap(([, method = '', path = '', parameters = '']) => {
    const ofMethod = here.filter((one) => one.method === method)
    // `pulls/{index}` also matches `pulls/{index}.{diffType}`, but that one has a route of its own.
    const found =
      ofMethod.find(({ shape }) => shape === shapeOf(path)) ??
      ofMethod.find(({ pattern }) => pattern.test(path))
    if (found === undefined) return []
    const { requestBody, parameters: queried = [] } = found.operation
    const [media] = Object.values(requestBody?.content ?? {})
    const body: { properties?: object; anyOf?: { properties?: object }[] } = media?.schema ?? {}
    const { properties } = body.anyOf?.[0] ?? body
    const known = Object.keys(properties ?? {})
    const [, type = ''] = /body\??: (\w+)/.exec(parameters) ?? []
    const [, query = ''] = /query\??: \{([\s\S]*?)\n\s*\}/.exec(parameters) ?? []
    const names = [...query.matchAll(/^\s*"?([\w.-]+)"?\??:/gm)].map(([, name = '']) => name)
    return [
      {
        name: `${method} ${path}`,
        body: fieldsOf(type).filter((field) => !known.includes(field)),
        query: names.filter((name) => !queried.some((one) => one.in === 'query' && one.name === name)),
      },
    ]
  })
}

/** The undocumented methods of each path of Gitea, in the order of the paths. */
export function missingRoutes(documentation: Documentation): Map<string, string[]> {
  const here = operationsOf(documentation)
    .filter(({ path }) => path.startsWith('/api/v1/'))
    .map(({ method, path }) => ({
      method: method.toUpperCase(),
      pattern: patternOf(path.slice('/api/v1'.length)),
    }))
  const missing = new Map<string, string[]>()
  for (const { method, path } of giteaRoutes().sort((a, b) => (a.path < b.path ? -1 : 1))) {
    if (here.some((one) => one.method === method && one.pattern.test(path))) continue
    missing.set(path, [...(missing.get(path) ?? []), method])
  }
  return missing
}

/** The list in docs/compatibility.md: a row for each group of paths. */
export function missingRoutesTable(missing: ReadonlyMap<string, readonly string[]>): string {
  const groups = new Map<string, string[]>()
  for (const [path, methods] of missing) {
    const group = groupOf(path)
    const rest = path.slice(group.length)
    groups.set(group, [
      ...(groups.get(group) ?? []),
      `\`${rest === '' ? '/' : rest}\` ${[...methods].sort().join(' ')}`,
    ])
  }
  const rows = [...groups].map(([group, paths]) => `| \`${group}\` | ${paths.join(', ')} |\n`)
  return `| below | not here |\n| --- | --- |\n${rows.join('')}`
}

/** The common prefix of the paths in a row. */
function groupOf(path: string): string {
  const ofRepository = path.startsWith('/repos/{owner}/{repo}')
  return ofRepository ? '/repos/{owner}/{repo}' : path.split('/').slice(0, 2).join('/')
}
