/** Changes files: `POST`, `PUT` and `DELETE /repos/{owner}/{repo}/contents/{path}`; many at once without the path. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { commitFacts } from '../../git/commits.ts'
import { onRepository, type RepositoryRequest } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { type Routes, route } from '../../rights/routes.ts'
import { gitDirOf } from '../../services.ts'
import { type Contents, FilesWire, FileWire, fileCommitWire } from '../../wire/contents.ts'
import { contentsIfThere, readingOf } from '../../wire/contents-at.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { commandContext, settled } from '../request-context.ts'
import { commitWishes, contentsBodies, type WantedChange, wantedChange } from './body.ts'
import { commitFiles, requireMayCommit } from './commit-files.ts'

const FileParams = Type.Object({ ...RepositoryParams.properties, '*': Type.String() })

/** In an answer about many files, so many of them are shown, as on the first page of a list. */
const MAX_SHOWN_BYTES = 4 * 1024 * 1024

export const contentsRoutes: Routes = (services) => {
  const bodies = contentsBodies(services)

  /** Makes the commit, and shows it with the files as it has them: null for a file that is gone. */
  async function change(
    request: FastifyRequest & RepositoryRequest,
    reply: FastifyReply,
    body: Omit<Static<typeof bodies.create>, 'content'>,
    wanted: () => WantedChange[],
  ): Promise<Static<typeof FilesWire>> {
    const { repository } = await onRepository(services, request, 'read')
    const wishes = commitWishes(body, repository.defaultBranch)
    await requireMayCommit(services, repository.id, signedIn(request), wishes.newBranch)
    const changes = wanted()
    const context = commandContext(request)
    const sha = await commitFiles(services, request, context, { repository, wishes, changes })
    await settled(services, context, reply)
    const facts = (await commitFacts(gitDirOf(services, repository.id), [sha])).get(sha)
    if (facts === undefined) throw new Error(`the new commit ${sha} is gone`)
    const publicUrl = services.publicUrl()
    const commit = { kind: 'branch', name: wishes.newBranch, sha } as const
    const reading = readingOf(services, request, reply)
    const files: (Contents | null)[] = []
    let bytes = 0
    for (const { path } of changes) {
      const shown = { content: bytes < MAX_SHOWN_BYTES, lastCommit: true }
      const file = await contentsIfThere(reading, { repository, publicUrl, commit }, path, shown)
      bytes += file?.size ?? 0
      files.push(file)
    }
    const isSigned = services.config.signingKey !== undefined
    return { files, ...fileCommitWire({ repository, publicUrl }, facts, isSigned) }
  }

  /** The same for one file. */
  async function changeOne(...args: Parameters<typeof change>): Promise<Static<typeof FileWire>> {
    const { files, ...commit } = await change(...args)
    return { content: files[0] ?? null, ...commit }
  }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/contents',
      route('repository', { params: RepositoryParams, body: bodies.change, response: { 201: FilesWire } }),
      async (request, reply) => {
        const { body } = request
        const answer = await change(request, reply, body, () =>
          body.files.map((file, i) => wantedChange(file, `files.${i}.`)),
        )
        return reply.code(201).send(answer)
      },
    )

    app.post(
      '/repos/:owner/:repo/contents/*',
      route('repository', { params: FileParams, body: bodies.create, response: { 201: FileWire } }),
      async (request, reply) => {
        const { body, params } = request
        const file = { operation: 'create', path: params['*'], content: body.content }
        return reply.code(201).send(await changeOne(request, reply, body, () => [wantedChange(file)]))
      },
    )

    app.put(
      '/repos/:owner/:repo/contents/*',
      route('repository', {
        params: FileParams,
        body: bodies.update,
        response: { 200: FileWire, 201: FileWire },
      }),
      async (request, reply) => {
        const { body, params } = request
        // Without the sha of a file, there is none yet.
        const operation = body.sha || body.from_path ? 'update' : 'create'
        const file = { ...body, operation, path: params['*'] }
        const answer = await changeOne(request, reply, body, () => [wantedChange(file)])
        return reply.code(operation === 'create' ? 201 : 200).send(answer)
      },
    )

    app.delete(
      '/repos/:owner/:repo/contents/*',
      route('repository', { params: FileParams, body: bodies.remove, response: { 200: FileWire } }),
      async (request, reply) => {
        const { body, params } = request
        const file = { operation: 'delete', path: params['*'], sha: body.sha }
        return changeOne(request, reply, body, () => [wantedChange(file)])
      },
    )
  }
}
