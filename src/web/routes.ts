/** `GET /ui/{owner}/{repo}/pulls/{index}`: a web page that shows the history of a pull request. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { atLeast } from '../access/access.ts'
import { type RepositoryAccess, type RepositoryPath, repositoryAt } from '../access/repository-access.ts'
import { isOpenTo } from '../access/visibility.ts'
import { PullParams, type PullRequestWire, pullFor } from '../api/pull-requests/pulls.ts'
import { clientOf } from '../auth/requester.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { pullStream } from '../events/streams.ts'
import { requestedBeginning } from '../http/answers/event-stream.ts'
import { basePath } from '../http/requests/base-path.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { sendDiff } from '../queries/contents/commit-answers.ts'
import { sendLive } from '../queries/history/history-live.ts'
import { discussionPermissions } from '../queries/history/history-permissions.ts'
import { streamHistory } from '../queries/history/history-source.ts'
import { replayClientOf } from '../queries/history/replay/replay-client.ts'
import { rangeOf } from '../queries/history/replay/replay-stream.ts'
import { pullReplayer } from '../queries/history/replay/replayers.ts'
import { momentOf, revisionOf } from '../queries/history/replay/routes.ts'
import { mergedEvidence, shownEvidence } from '../queries/pull-requests/evidence/merged-evidence.ts'
import { gitDirOf, type Services } from '../services/services.ts'
import { readAssets } from './assets.ts'
import { changesSection } from './changes.ts'
import { maySeeCommits } from './commit-visibility.ts'
import { evidencePage } from './evidence-page.ts'
import { CONTENT_SECURITY_POLICY, page } from './layout.ts'
import { mergeStatusSection } from './merge-status.ts'
import { answerWithPages, HTML } from './pages.ts'
import { diffName, diffOf, pullStateSection } from './pull-state.ts'
import { frameFor, repositoryTabs, sendRepositoryPage, siteOf } from './repository-frame.ts'
import { showTexts } from './shown-texts.ts'
import { ENTRIES, entriesOf, partStart, timelineSection } from './timeline.ts'

const LiveQuery = Type.Object({
  after: OptionalText('begin after this event, like Last-Event-ID'),
})

const PageQuery = Type.Object({
  revision: OptionalText('show the state after this event; the first is 0, default: the newest'),
  part: Type.Optional(
    Type.Union([Type.Literal('moment'), Type.Literal('timeline'), Type.Literal('changes')], {
      description: 'only this section of the page, for the script',
    }),
  ),
})

type Pull = Static<typeof PullRequestWire>

export function uiRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events, publicUrl } = services
  const base = () => basePath(publicUrl())
  const assetsPath = () => `${base()}/ui/assets`

  /**
   * Returns the repository if the user may read it; otherwise 404. Anonymous users always get 401, so that they can
   * sign in.
   */
  async function visibleRepository(request: FastifyRequest, path: RepositoryPath): Promise<RepositoryAccess> {
    try {
      return await repositoryAt(services, request.requester, path, 'read')
    } catch (error) {
      if (request.requester !== null || !(error instanceof Refused)) throw error
      if (error.refusal.refused === 'moved') throw error
      throw new Refused(refuse.unauthenticated('sign in to see this page, if it exists'))
    }
  }

  const isShown = (
    request: FastifyRequest<{ Params: Static<typeof PullParams> }>,
    reply: FastifyReply,
    { repository, access }: RepositoryAccess,
    commits: { from: string; to: string },
  ) =>
    maySeeCommits(
      services,
      { request, reply },
      { repoId: repository.id, index: request.params.index, access },
      commits,
    )

  return async (app) => {
    answerWithPages(app, CONTENT_SECURITY_POLICY)

    // The page has comments, which a token with only the repository scope may not read.
    const config = { scope: ['repository', 'issue'], forPages: true } as const

    for (const { name, type, content, tag } of await readAssets()) {
      app.get(`/ui/assets/${name}`, { schema: { hide: true } }, async (request, reply) => {
        // Browsers must revalidate each time, so that script and page are from the same version.
        reply.headers({ ETag: tag, 'Cache-Control': 'no-cache' })
        if (request.headers['if-none-match']?.includes(tag)) return reply.code(304).send()
        return reply.type(type).send(content)
      })
    }

    app.get(
      '/ui/:owner/:repo/pulls/:index/diff',
      {
        config,
        schema: { hide: true, params: PullParams, querystring: Type.Object({ revision: Type.String() }) },
      },
      async (request, reply) => {
        const { params, query, requester } = request
        const found = await visibleRepository(request, params)
        const client = replayClientOf(request, reply)
        const replayer = await pullReplayer(services, found, params.index, requester, client)
        const { from, to } = diffOf((await replayer.at(momentOf(query))).body)
        if (!(await isShown(request, reply, found, { from, to }))) {
          throw new Refused(refuse.notFound('no branch or tag has the commits of this moment any more'))
        }
        reply.header('Cache-Control', 'private, no-store')
        const dir = gitDirOf(services, found.repository.id)
        return sendDiff(request, reply, services.gitLimits, dir, from, to, { kind: 'diff', binary: false })
      },
    )

    // The API's `…/history` under the page's path: browsers send a password only to paths below the one that requested
    // it.
    app.get(
      '/ui/:owner/:repo/pulls/:index/live',
      { config, schema: { hide: true, params: PullParams, querystring: LiveQuery } },
      async (request, reply) => {
        const { repository } = await visibleRepository(request, request.params)
        const { index } = await pullFor(services, repository.id, request.params.index)
        await sendLive(services, request, reply, {
          history: streamHistory(services, pullStream(repository.id, index)),
          filter: {},
          permissions: discussionPermissions(services, request, repository.id),
          beginning: requestedBeginning(request, request.query.after),
        })
        return reply
      },
    )

    app.get(
      '/ui/:owner/:repo/pulls/:index/evidence',
      { config: { forPages: true }, schema: { hide: true, params: PullParams } },
      async (request, reply) => {
        const found = await visibleRepository(request, request.params)
        const pull = await pullFor(services, found.repository.id, request.params.index)
        const evidence = await mergedEvidence(services, request, reply, pull, { forDocument: false })
        const shown = shownEvidence(evidence, atLeast(found.access, 'admin'))
        const frame = frameFor(siteOf(services, request), found)
        return sendRepositoryPage(reply, frame, 'pulls', evidencePage(frame, pull.title, shown))
      },
    )

    app.get(
      '/ui/:owner/:repo/pulls/:index',
      { config, schema: { hide: true, params: PullParams, querystring: PageQuery } },
      async (request, reply) => {
        const { params, query, requester } = request
        const found = await visibleRepository(request, params)
        const { repository } = found
        const client = replayClientOf(request, reply)
        const replayer = await pullReplayer(services, found, params.index, requester, client)
        const stream = pullStream(repository.id, Number(params.index))
        const last = (await rangeOf(events, stream))?.last.revision ?? 0
        const revision = query.revision === undefined ? last : revisionOf('revision', query.revision)
        const place = [repository.ownerLogin, repository.name].map(encodeURIComponent).join('/')
        const links = { site: base(), repository: `${base()}/${place}` }
        const show = showTexts(clientOf(request), {
          site: publicUrl(),
          repository: `${repository.ownerLogin}/${repository.name}`,
        })
        const paths = { page: `${base()}/ui/${place}/pulls/${params.index}`, assets: assetsPath() }
        reply.type(HTML)
        reply.header('Cache-Control', isOpenTo(repository, null) ? 'private, no-cache' : 'private, no-store')

        const timeline = async () => {
          const entries = await entriesOf(
            events,
            stream,
            { from: partStart(revision), limit: ENTRIES },
            links,
          )
          return timelineSection(entries, { revision, last, page: paths.page }, links, show)
        }
        const changes = async (pull: Pull) =>
          changesSection(gitDirOf(services, repository.id), diffOf(pull), {
            isShown: await isShown(request, reply, found, diffOf(pull)),
            name: diffName(pull),
            wholeUrl: `${paths.page}/diff?revision=${revision}`,
            log: request.log,
            share: services.gitLimits.diffs.shareOf(clientOf(request)),
            signal: client.gone,
          })
        const stateAndPrevious = async () => {
          if (revision <= 0) return { now: (await replayer.at({ revision })).body, before: undefined }
          const { from, to } = await replayer.between(revision - 1, revision)
          return { now: to.body, before: from.body }
        }
        const moment = async ({ now, before }: { now: Pull; before: Pull | undefined }) => {
          const [entry] = await entriesOf(events, stream, { from: revision, limit: 1 }, links)
          if (entry === undefined) throw new Refused(refuse.notFound('the pull request has no such event'))
          const isNow = revision === last
          const present = isNow
            ? await mergeStatusSection(services, repository, now.number, requester, links)
            : ''
          return pullStateSection({ entry, now, before, last, present }, links, show)
        }

        switch (query.part) {
          case 'moment':
            return moment(await stateAndPrevious())
          case 'timeline':
            if (revision > last || revision < 0) await replayer.at({ revision })
            return timeline()
          case 'changes':
            return changes((await replayer.at({ revision })).body)
          default: {
            const pulls = await stateAndPrevious()
            const sections = await Promise.all([moment(pulls), timeline(), changes(pulls.now)])
            const [momentPart, timelinePart, changesPart] = sections
            const { title, number } = pulls.now
            return page(
              { moment: momentPart, timeline: timelinePart, changes: changesPart },
              {
                title,
                number,
                fullName: `${repository.ownerLogin}/${repository.name}`,
                revision,
                last,
                links,
                tabs: repositoryTabs(frameFor(siteOf(services, request), found), 'pulls'),
                login: requester?.login ?? null,
              },
              paths,
            )
          }
        }
      },
    )
  }
}
