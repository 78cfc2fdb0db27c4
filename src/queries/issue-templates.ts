/**
 * Templates of issues in the default branch: `/repos/{owner}/{repo}/issue_templates`, `/issue_config` and
 * `/issue_config/validate`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { smallBlobs } from '../git/blobs.ts'
import { objectReaders } from '../git/object-readers.ts'
import { resolveRef } from '../git/refs.ts'
import { kindOf, nameOf } from '../git/tree-entries.ts'
import { partsOf } from '../git/tree-path.ts'
import { entryAt, readTree, treeOf } from '../git/trees.ts'
import { inPieces } from '../pieces.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { onRepository } from '../rights/repository-access.ts'
import { gitDirOf, type Services } from '../services.ts'
import {
  CONFIG_PATHS,
  configIn,
  DEFAULT_CONFIG,
  IssueConfigWire,
  IssueTemplateWire,
  isTemplateName,
  TEMPLATE_DIRECTORIES,
  templateIn,
} from '../wire/issue-templates.ts'
import { RepositoryParams } from '../wire/repositories.ts'

/** More files of a directory are passed over. */
const MAX_FILES = 50
/** So are larger ones: YAML of a few kilobytes takes milliseconds. */
const MAX_BYTES = 32 * 1024

interface File {
  path: string
  id: string
}

/** The tree of the default branch; undefined when the repository is empty. */
async function treeIn(dir: string, { defaultBranch }: RepositoryDocument): Promise<string | undefined> {
  const commit = await resolveRef(dir, `refs/heads/${defaultBranch}`)
  return commit === null ? undefined : treeOf(dir, commit)
}

async function filesAt(dir: string, tree: string, paths: readonly string[]): Promise<File[]> {
  const found: File[] = []
  for (const path of paths) {
    const entry = await entryAt(dir, tree, partsOf(path) ?? [])
    if (entry !== undefined && kindOf(entry) === 'file') found.push({ path, id: entry.id })
  }
  return found
}

async function templateFiles(dir: string, tree: string): Promise<File[]> {
  const found: File[] = []
  for (const directory of TEMPLATE_DIRECTORIES) {
    const entry = await entryAt(dir, tree, partsOf(directory) ?? [])
    if (entry === undefined || kindOf(entry) !== 'dir') continue
    const entries = (await readTree(dir, entry.id)).page(0, MAX_FILES)
    const files = entries.filter((one) => kindOf(one) === 'file' && isTemplateName(nameOf(one)))
    found.push(...files.map((one) => ({ path: `${directory}/${nameOf(one)}`, id: one.id })))
  }
  return found
}

/** The text of each file, in their order. */
async function textsOf(dir: string, files: readonly File[]): Promise<{ path: string; text: string }[]> {
  const headers = await objectReaders.headers(
    dir,
    files.map(({ id }) => id),
  )
  const small = headers.filter((header) => header !== undefined).filter(({ size }) => size <= MAX_BYTES)
  const contents = await smallBlobs(dir, small)
  return files.flatMap(({ path, id }) => {
    const content = contents.get(id)
    return content === undefined ? [] : [{ path, text: content.toString('utf8') }]
  })
}

export function issueTemplateRoutes(services: Services): FastifyPluginAsyncTypebox {
  async function configOf(repository: RepositoryDocument): Promise<Static<typeof IssueConfigWire> | string> {
    const dir = gitDirOf(services, repository.id)
    const tree = await treeIn(dir, repository)
    const files = tree === undefined ? [] : await filesAt(dir, tree, CONFIG_PATHS)
    const [first] = await textsOf(dir, files.slice(0, 1))
    return first === undefined ? DEFAULT_CONFIG : configIn(first.text)
  }

  return async (app) => {
    const tags = ['repository']
    const params = RepositoryParams

    app.get(
      '/repos/:owner/:repo/issue_templates',
      { schema: { tags, params, response: { 200: Type.Array(IssueTemplateWire) } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const dir = gitDirOf(services, repository.id)
        const tree = await treeIn(dir, repository)
        const files = tree === undefined ? [] : await templateFiles(dir, tree)
        const templates: Static<typeof IssueTemplateWire>[] = []
        await inPieces(`${repository.id}`, await textsOf(dir, files), ({ path, text }) => {
          const template = templateIn(path, text)
          if (template !== undefined) templates.push(template)
        })
        return templates
      },
    )

    app.get(
      '/repos/:owner/:repo/issue_config',
      { schema: { tags, params, response: { 200: IssueConfigWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const config = await configOf(repository)
        return typeof config === 'string' ? DEFAULT_CONFIG : config
      },
    )

    app.get(
      '/repos/:owner/:repo/issue_config/validate',
      {
        schema: {
          tags,
          params,
          response: { 200: Type.Object({ valid: Type.Boolean(), message: Type.String() }) },
        },
      },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const config = await configOf(repository)
        return typeof config === 'string' ? { valid: false, message: config } : { valid: true, message: '' }
      },
    )
  }
}
