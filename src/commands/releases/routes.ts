/** Creates, changes and deletes releases: `/repos/{owner}/{repo}/releases`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import type { Caller } from '../../api/contents/reached-objects.ts'
import {
  ReleaseParams,
  ReleaseTagParams,
  ReleaseWire,
  releaseFor,
  releaseOfTag,
  releaseWire,
} from '../../api/releases/releases.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import type { ReleaseSettings } from '../../events/catalog/releases.ts'
import { claimKeys, idsStream, releaseStream } from '../../events/streams.ts'
import { type ReleaseDocument, releaseFold } from '../../projections/models/releases/releases.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { releases } from '../execution/aggregates.ts'
import { releaseClaim, takeClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { load } from '../execution/load.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { TextOf } from '../execution/text-schema.ts'
import type { Tagging } from '../tags/tags.ts'
import { requireTagName } from '../tags/tags.ts'
import { changeRelease } from './change-release.ts'
import { ensureTag } from './ensure-tag.ts'
import {
  decideCreateRelease,
  decideDeleteRelease,
  decideEditRelease,
  releaseDecider,
} from './release.decider.ts'

const short = { maxLength: 255 }

/** Fields that some clients send and this server does not support. */
const unsupportedFields = {
  hide_archive_links: Type.Optional(Type.Boolean({ description: 'Only false is supported' })),
  external_url: Type.Optional(Type.String({ ...short, description: 'Only an empty text is supported' })),
}

/** Null and an empty text are the same as absent: Go clients send them for a field that does not change. */
const EditReleaseOption = (services: Services) =>
  Type.Object(
    {
      tag_name: Type.Optional(Type.String()),
      target_commitish: Type.Optional(Type.String(short)),
      name: Type.Optional(Type.String(short)),
      body: Type.Optional(TextOf(services)),
      draft: Type.Optional(Type.Boolean()),
      prerelease: Type.Optional(Type.Boolean()),
      ...unsupportedFields,
    },
    { title: 'EditReleaseOption' },
  )

const CreateReleaseOption = (services: Services) =>
  Type.Object(
    {
      ...EditReleaseOption(services).properties,
      tag_name: Type.String(),
      tag_message: Type.Optional(TextOf(services)),
    },
    { title: 'CreateReleaseOption' },
  )

function changesOf(body: Static<ReturnType<typeof EditReleaseOption>>): Partial<ReleaseSettings> {
  if (body.hide_archive_links) {
    throw new Refused(refuse.unprocessable('hide_archive_links: is not supported'))
  }
  if (body.external_url) {
    throw new Refused(refuse.unprocessable('external_url: is not supported'))
  }
  const changes: Partial<ReleaseSettings> = {}
  if (body.tag_name) changes.tag = body.tag_name
  if (body.target_commitish) changes.target = body.target_commitish
  if (body.name) changes.name = body.name
  if (body.body) changes.body = body.body
  if (body.draft != null) changes.draft = body.draft
  if (body.prerelease != null) changes.prerelease = body.prerelease
  return changes
}

/** Claims the tag for a release. @throws Refused (conflict) when another release has it */
async function claimTag(
  services: Services,
  context: CommandContext,
  repoId: number,
  tag: string,
  holder: string,
): Promise<void> {
  const key = claimKeys.release(repoId, tag)
  const stillHolds = async (other: string) => {
    const { state } = await load(services, other, releaseDecider)
    return state.status === 'there' && state.tag === tag
  }
  const claim = await takeClaim(services, context, { key, holder, stillHolds })
  if (!claim.taken)
    throw new Refused(coded('release_exists', refuse.conflict('tag_name: this tag has a release already')))
}

/**
 * Serializes claims and releases of a release's tags, on all nodes, so that no request frees a tag that another needs.
 */
const withReleaseLock = <T>({ runExclusive }: Services, id: number, work: () => Promise<T>): Promise<T> =>
  runExclusive(`release ${id}`, work)

/** Returns the release from the log. @throws Refused (not found) */
async function releaseInLog(services: Services, id: number) {
  const state = await releases.load(services, id)
  if (state.status !== 'there') throw notFoundIn(services.views.releases, 'release not found')
  return state
}

/** Runs work that needs the claim of a tag. Releases the claim after a refusal. */
async function withTag<T>(
  services: Services,
  context: CommandContext,
  { repoId, tag, holder }: { repoId: number; tag: string; holder: string },
  work: () => Promise<T>,
): Promise<T> {
  await claimTag(services, context, repoId, tag, holder)
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refused) {
      await releaseClaim(services, context, claimKeys.release(repoId, tag), holder)
    }
    throw error
  }
}

const releaseNow = (services: Services, id: number): Promise<ReleaseDocument> => {
  const source = { id, stream: releaseStream(id), view: services.views.releases, fold: releaseFold }
  return loadDocument(services, 'release', source)
}

export const releaseRoutes: Routes = (services) => {
  async function create(
    request: FastifyRequest & RepositoryRequest & { body: Static<ReturnType<typeof CreateReleaseOption>> },
    reply: FastifyReply,
  ) {
    const { repository } = await onRepository(services, request, 'write')
    const requester = signedIn(request)
    const repoId = repository.id
    if (repository.empty) throw new Refused(refuse.unprocessable('the repository is empty'))
    const tag = request.body.tag_name
    requireTagName(tag)
    const settings: ReleaseSettings = {
      ...{ tag, target: repository.defaultBranch, name: '', body: '', draft: false, prerelease: false },
      ...changesOf(request.body),
    }
    const context = commandContext(request)
    const releaseId = await takeNumber(services, context, idsStream('release'))
    const author = { id: requester.id, login: requester.login }
    const holder = releaseStream(releaseId)
    await withReleaseLock(services, releaseId, async () => {
      if ((await releases.ifDone(services, context, releaseId, 'create')) !== undefined) return
      await withTag(services, context, { repoId, tag, holder }, async () => {
        const wanted = { ...settings, message: request.body.tag_message ?? '' }
        const { createdAt } = settings.draft
          ? { createdAt: context.at }
          : await ensureTag(services, context, { repository, requester, caller: { request, reply } }, wanted)
        await releases.change(services, context, releaseId, 'create', (state) =>
          decideCreateRelease(state, { releaseId, repoId, author, ...settings, createdAt }),
        )
      })
    })
    await settled(services, context, reply)
    return reply
      .code(201)
      .send(await releaseWire(services, repository, await releaseNow(services, releaseId)))
  }

  /** Runs under the lock of the release. */
  async function edit(
    context: CommandContext,
    tagging: Omit<Tagging, 'request'> & { caller: Caller },
    id: number,
    wanted: Partial<ReleaseSettings>,
  ): Promise<void> {
    const before = await releaseInLog(services, id)
    const { repoId } = before
    const { tag, target, draft } = { ...before, ...wanted }
    async function change(): Promise<void> {
      const made = draft
        ? undefined
        : await ensureTag(services, context, tagging, { tag, target, message: '' })
      await changeRelease(services, context, id, 'edit', (state) =>
        decideEditRelease(state, wanted, made?.isNew ? made.createdAt : undefined),
      )
    }
    if (tag === before.tag) return change()
    requireTagName(tag)
    const holder = releaseStream(id)
    await withTag(services, context, { repoId, tag, holder }, change)
    await releaseClaim(services, context, claimKeys.release(repoId, before.tag), holder)
  }

  const remove = (context: CommandContext, { id, assetUuids }: ReleaseDocument): Promise<void> =>
    withReleaseLock(services, id, async () => {
      const { repoId, tag } = await releaseInLog(services, id)
      await changeRelease(services, context, id, 'delete', decideDeleteRelease)
      await releaseClaim(services, context, claimKeys.release(repoId, tag), releaseStream(id))
      for (const uuid of assetUuids) await services.attachments.remove(uuid)
    })

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/releases',
      route('repository', {
        params: RepositoryParams,
        body: CreateReleaseOption(services),
        response: { 201: ReleaseWire },
      }),
      create,
    )

    app.patch(
      '/repos/:owner/:repo/releases/:id',
      route('repository', {
        params: ReleaseParams,
        body: EditReleaseOption(services),
        response: { 200: ReleaseWire },
      }),
      async (request, reply) => {
        const found = await onRepository(services, request, 'write')
        const { id } = await releaseFor(services, found, request.params.id)
        const wanted = changesOf(request.body)
        const context = commandContext(request)
        const tagging = {
          repository: found.repository,
          requester: signedIn(request),
          caller: { request, reply },
        }
        await withReleaseLock(services, id, () => edit(context, tagging, id, wanted))
        await settled(services, context, reply)
        return releaseWire(services, found.repository, await releaseNow(services, id))
      },
    )

    app.delete(
      '/repos/:owner/:repo/releases/:id',
      route('repository', { params: ReleaseParams, response: NO_CONTENT }),
      async (request, reply) => {
        const found = await onRepository(services, request, 'write')
        const context = commandContext(request)
        await remove(context, await releaseFor(services, found, request.params.id))
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )

    app.delete(
      '/repos/:owner/:repo/releases/tags/*',
      route('repository', { params: ReleaseTagParams, response: NO_CONTENT }),
      async (request, reply) => {
        const found = await onRepository(services, request, 'write')
        const context = commandContext(request)
        await remove(context, await releaseOfTag(services, found, request.params['*']))
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
