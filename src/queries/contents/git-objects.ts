/** Git's objects and refs: `/repos/{owner}/{repo}/git/…`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  AnnotatedTagWire,
  annotatedTagWire,
  GitBlobWire,
  GitTreeWire,
  gitEntryWire,
  NoteWire,
  ReferenceWire,
  referenceWire,
  TREE_PAGE,
} from '../../api/contents/git-objects.ts'
import { type Caller, isServed, servedCommitOf } from '../../api/contents/reached-objects.ts'
import { allRefsOf, refsOf, requireCommits } from '../../api/contents/refs-in-time.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { repositoryUrl, StatusParams } from '../../api/statuses/statuses.ts'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { NOTES, noteOf } from '../../git/commits/notes.ts'
import { isSmall, smallBlobs } from '../../git/objects/blobs.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { rememberingFailure } from '../../git/process/remembered-failures.ts'
import { isObjectId } from '../../git/refs/names.ts'
import { readRef } from '../../git/refs/ref-source.ts'
import type { Ref } from '../../git/refs/refs.ts'
import { tagFacts } from '../../git/refs/tags.ts'
import { kindOf } from '../../git/trees/tree-entries.ts'
import { listTree } from '../../git/trees/tree-listings.ts'
import { partsOf } from '../../git/trees/tree-path.ts'
import { entryAt } from '../../git/trees/trees.ts'
import { sendStreamedList } from '../../http/answers/streamed-list.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { sendOnePage, sendPaging, wantedPage } from '../../http/requests/paging.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { listSchema, type PageRequest } from '../paged-list.ts'
import { askGit, CommitFlagsQuery, commitFlags, commitWires, readCommits } from './commit-answers.ts'

/** Batch size of the references' objects. */
const PART = 500

const wholeNumber = (text: string | undefined, least: number, whenNot: number) => {
  const number = text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : whenNot
  return number < least ? whenNot : number
}

/** @throws Refused (invalid) for an invalid id */
function requireId(text: string): string {
  const id = text.toLowerCase()
  if (!isObjectId(id)) throw new Refused(refuse.invalid('sha: must be 40 hexadecimal digits'))
  return id
}

/**
 * Returns the id of a tree, named by id, branch, tag or commit; with a path after a colon, of a directory there.
 * @throws Refused (not found)
 */
async function treeOf(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  expression: string,
): Promise<string> {
  const [name = '', ...path] = expression.split(':')
  const root = await rootOf(services, caller, repository, name)
  const parts = partsOf(path.join(':'))
  const entry = parts && (await entryAt(gitDirOf(services, repository.id), root, parts))
  if (entry === undefined || kindOf(entry) !== 'dir') throw new Refused(refuse.notFound('tree not found'))
  return entry.id
}

async function rootOf(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  name: string,
): Promise<string> {
  const dir = gitDirOf(services, repository.id)
  const id = name.toLowerCase()
  const [header] = isObjectId(id) ? await objectReaders.headers(dir, [id]) : []
  if (header?.type === 'tree' && (await isServed(services, caller, repository, id))) return id
  const commit = await servedCommitOf(services, caller, repository, name)
  const tree = (await commitFacts(dir, [commit])).get(commit)?.tree
  if (tree === undefined) throw new Refused(refuse.notFound('tree not found'))
  return tree
}

export function gitObjectRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { diffs } = services.gitLimits

  /** All refs of a repository, also those of pull requests, by name. */
  const refsFor = async (request: PageRequest, reply: FastifyReply, repoId: number): Promise<Ref[]> =>
    await diffs.ask(clientOf(request), disconnectSignal(reply), () => allRefsOf(services, repoId))

  async function* references(dir: string, refs: readonly Ref[], api: string) {
    for (let i = 0; i < refs.length; i += PART) {
      const part = refs.slice(i, i + PART)
      const headers = await objectReaders.headers(
        dir,
        part.map(({ sha }) => sha),
      )
      yield part.map((ref, j) => referenceWire({ ...ref, type: headers[j]?.type ?? 'commit' }, api))
    }
  }

  /** Sends a page of references, or all without a requested page. */
  async function sendReferences(
    request: PageRequest,
    reply: FastifyReply,
    repository: RepositoryDocument,
    refs: readonly Ref[],
  ) {
    const publicUrl = services.publicUrl()
    const page = wantedPage(request.query, services.config)
    if (page === undefined) sendOnePage(request, reply, publicUrl, refs.length)
    else sendPaging(request, reply, publicUrl, page, refs.length)
    const shown = page === undefined ? refs : refs.slice(page.skip, page.skip + page.limit)
    const dir = gitDirOf(services, repository.id)
    return sendStreamedList(reply, references(dir, shown, repositoryUrl(repository, publicUrl)))
  }

  return async (app) => {
    const tags = ['repository']
    const params = StatusParams

    app.get(
      '/repos/:owner/:repo/git/trees/:sha',
      {
        schema: {
          tags,
          description:
            'A tree by its id, or the one of a branch, a tag or a commit; `main:docs/en` is that of a directory',
          params,
          querystring: Type.Object({
            recursive: OptionalText('Whether to list the entries of subfolders, too; default false'),
            page: OptionalText('Number of the page; the first is 1'),
            per_page: OptionalText(`Page size: default and maximum ${TREE_PAGE}`),
          }),
          response: { 200: GitTreeWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { query } = request
        const sha = await treeOf(services, { request, reply }, repository, request.params.sha)
        const dir = gitDirOf(services, repository.id)
        const recursive = flagOf(query.recursive, false)
        const page = wholeNumber(query.page, 1, 1)
        const limit = Math.min(wholeNumber(query.per_page, 1, TREE_PAGE), TREE_PAGE)
        const listing = await askGit(request, sha, () =>
          rememberingFailure([dir, sha, 'tree', recursive].join('\0'), () =>
            diffs.ask(clientOf(request), disconnectSignal(reply), (slot) =>
              listTree(dir, sha, { recursive }, slot),
            ),
          ),
        )
        const entries = listing.page((page - 1) * limit, limit)
        const blobs = [...new Set(entries.flatMap(({ type, sha }) => (type === 'blob' ? [sha] : [])))]
        const headers = await objectReaders.headers(dir, blobs)
        const sizes = new Map(headers.flatMap((header) => (header ? [[header.sha, header.size]] : [])))
        const api = repositoryUrl(repository, services.publicUrl())
        return {
          sha,
          url: `${api}/git/trees/${sha}`,
          tree: entries.map((entry) => gitEntryWire(entry, api, sizes)),
          truncated: page * limit < listing.total,
          page,
          total_count: listing.total,
        }
      },
    )

    app.get(
      '/repos/:owner/:repo/git/blobs/:sha',
      { schema: { tags, params, response: { 200: GitBlobWire } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const sha = requireId(request.params.sha)
        const dir = gitDirOf(services, repository.id)
        const [header] = await objectReaders.headers(dir, [sha])
        const isThere =
          header?.type === 'blob' && (await isServed(services, { request, reply }, repository, sha))
        if (!isThere) throw new Refused(refuse.notFound('blob not found'))
        const small = isSmall(header) ? await smallBlobs(dir, [header]) : undefined
        // Clients download larger files.
        const content = small?.get(sha)?.toString('base64') ?? null
        const url = `${repositoryUrl(repository, services.publicUrl())}/git/blobs/${sha}`
        return { content, encoding: content === null ? null : 'base64', url, sha, size: header.size }
      },
    )

    app.get(
      '/repos/:owner/:repo/git/refs',
      { schema: { tags, params: RepositoryParams, ...listSchema(ReferenceWire) } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const refs = await refsFor(request, reply, repository.id)
        return await sendReferences(request, reply, repository, refs)
      },
    )

    app.get(
      '/repos/:owner/:repo/git/refs/*',
      {
        schema: {
          tags,
          description: 'Refs whose names, after `refs/`, begin with the given text',
          params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
          ...listSchema(ReferenceWire),
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const beginning = `refs/${request.params['*']}`
        const all = await refsFor(request, reply, repository.id)
        const refs = all.filter(({ ref }) => ref.startsWith(beginning))
        if (refs.length === 0) throw new Refused(refuse.notFound('ref not found'))
        return await sendReferences(request, reply, repository, refs)
      },
    )

    app.get(
      '/repos/:owner/:repo/git/tags/:sha',
      { schema: { tags, params, response: { 200: AnnotatedTagWire } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const sha = requireId(request.params.sha)
        const { dir, onUnresolved } = refsOf(services, repository.id)
        const tag = (await tagFacts(dir, [sha])).get(sha)
        if (tag === undefined || !(await isServed(services, { request, reply }, repository, sha))) {
          await onUnresolved?.(sha)
          throw new Refused(refuse.notFound('there is no tag object with that id'))
        }
        return annotatedTagWire(tag, repositoryUrl(repository, services.publicUrl()))
      },
    )

    app.get(
      '/repos/:owner/:repo/git/notes/:sha',
      {
        schema: {
          tags,
          params,
          querystring: Type.Object({
            verification: CommitFlagsQuery.verification,
            files: CommitFlagsQuery.files,
          }),
          response: { 200: NoteWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const sha = await servedCommitOf(services, { request, reply }, repository, request.params.sha)
        const refs = refsOf(services, repository.id)
        const { dir } = refs
        const flags = commitFlags(request.query)
        const tip = await readRef(refs, NOTES)
        if (tip !== null) await requireCommits(services, repository.id, [tip])
        const found = await askGit(request, sha, () =>
          diffs.ask(clientOf(request), disconnectSignal(reply), async (slot) => {
            const note = tip === null ? undefined : await noteOf(dir, tip, sha, slot)
            return note && { note, commits: await readCommits(services, dir, [note.commit], flags, slot) }
          }),
        )
        const [commit] = found ? await commitWires(services, repository, reply, found.commits, flags) : []
        if (found === undefined || commit === undefined) {
          throw new Refused(refuse.notFound('the commit has no note'))
        }
        return { message: found.note.message.toString('utf8'), commit }
      },
    )
  }
}
