/**
 * Templates of issues in the default branch: `/repos/{owner}/{repo}/issue_templates`, `/issue_config` and
 * `/issue_config/validate`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { refsOf, requireCommits } from '../../api/contents/refs-in-time.ts'
import {
  CONFIG_PATHS,
  DEFAULT_CONFIG,
  IssueConfigWire,
  IssueTemplateWire,
  isTemplateName,
  TEMPLATE_DIRECTORIES,
} from '../../api/issues/issue-templates.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { clientOf } from '../../auth/requester.ts'
import type { IssueConfig, IssueTemplate } from '../../domain/markup/issue-templates.ts'
import { readTemplates } from '../../domain/markup/template-reader.ts'
import { smallBlobs } from '../../git/objects/blobs.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { createAnswerCache } from '../../git/process/answer-cache.ts'
import { readRef } from '../../git/refs/ref-source.ts'
import { kindOf, nameOf } from '../../git/trees/tree-entries.ts'
import { partsOf } from '../../git/trees/tree-path.ts'
import { entryAt, readTree, treeOf } from '../../git/trees/trees.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { listSchema, rowsOrPage } from '../paged-list.ts'

/** Maximum number of files; further ones are skipped. */
const MAX_FILES = 50
/** Maximum size of a file, in bytes; larger ones are skipped. */
const MAX_BYTES = 32 * 1024

interface File {
  path: string
  id: string
}

/** Returns the tree of the default branch; undefined for an empty repository. */
async function treeIn(
  services: Services,
  { id, defaultBranch }: RepositoryDocument,
): Promise<string | undefined> {
  const refs = refsOf(services, id)
  const commit = await readRef(refs, `refs/heads/${defaultBranch}`)
  if (commit === null) return undefined
  await requireCommits(services, id, [commit])
  return treeOf(refs.dir, commit)
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
  return found.slice(0, MAX_FILES)
}

/** Returns the texts of the files, in their order. */
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

/** Caches by tree, whose files never change. */
const templates = createAnswerCache<IssueTemplate[]>(4 * 1024 * 1024, (found) => JSON.stringify(found).length)
const configs = createAnswerCache<{ config: IssueConfig | string }>(
  1024 * 1024,
  (found) => JSON.stringify(found).length,
)

function templatesIn(dir: string, tree: string, client: string): Promise<IssueTemplate[]> {
  return templates(`${dir}\0${tree}`, async () => {
    const files = await textsOf(dir, await templateFiles(dir, tree))
    if (files.length === 0) return []
    const answer = await readTemplates(client, { kind: 'templates', files })
    return answer.kind === 'templates' ? answer.templates : []
  })
}

function configOf(dir: string, tree: string, client: string): Promise<{ config: IssueConfig | string }> {
  return configs(`${dir}\0${tree}`, async () => {
    const [first] = await textsOf(dir, (await filesAt(dir, tree, CONFIG_PATHS)).slice(0, 1))
    if (first === undefined) return { config: DEFAULT_CONFIG }
    const answer = await readTemplates(client, { kind: 'config', text: first.text })
    return { config: answer.kind === 'config' ? answer.config : DEFAULT_CONFIG }
  })
}

export function issueTemplateRoutes(services: Services): FastifyPluginAsyncTypebox {
  /** Runs a query on the tree of the default branch; without one, returns `byDefault`. */
  async function ofDefaultBranch<T>(
    request: FastifyRequest & RepositoryRequest,
    ask: (dir: string, tree: string, client: string) => Promise<T>,
    byDefault: T,
  ): Promise<T> {
    const { repository } = await onRepository(services, request, 'read')
    const dir = gitDirOf(services, repository.id)
    const tree = await treeIn(services, repository)
    return tree === undefined ? byDefault : ask(dir, tree, clientOf(request))
  }
  const configFor = async (request: FastifyRequest & RepositoryRequest) =>
    (await ofDefaultBranch(request, configOf, { config: DEFAULT_CONFIG })).config

  return async (app) => {
    const tags = ['repository']
    const params = RepositoryParams

    app.get(
      '/repos/:owner/:repo/issue_templates',
      { schema: { tags, params, ...listSchema(IssueTemplateWire) } },
      async (request, reply) => {
        const found = await ofDefaultBranch(request, templatesIn, [])
        return [...rowsOrPage(services, request, reply, found)]
      },
    )

    app.get(
      '/repos/:owner/:repo/issue_config',
      { schema: { tags, params, response: { 200: IssueConfigWire } } },
      async (request) => {
        const config = await configFor(request)
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
        const config = await configFor(request)
        return typeof config === 'string' ? { valid: false, message: config } : { valid: true, message: '' }
      },
    )
  }
}
