/** The routes that check credentials: a scope of their own. */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { authPlugin } from '../auth/auth.ts'
import type { OpenRequests } from '../auth/open-requests.ts'
import { clientOf } from '../auth/requester.ts'
import { gitHttpRoutes } from '../commands/git/git-http.ts'
import { lfsLockRoutes } from '../commands/lfs/locks.ts'
import { lfsObjectRoutes } from '../commands/lfs/objects.ts'
import { compressAnswers } from '../http/answers/compression.ts'
import { decompressBodies } from '../http/bodies/compressed-bodies.ts'
import { refuseOtherBodies } from '../http/bodies/json-bodies.ts'
import { queueLargeBodies } from '../http/bodies/large-body-queue.ts'
import { scheduleByAccount } from '../http/connections/fair-scheduling.ts'
import { validateAfterAuthorization } from '../http/requests/deferred-validation.ts'
import type { Metrics } from '../observability/metrics.ts'
import { metricsRoute } from '../observability/metrics-route.ts'
import type { Scrape } from '../observability/scrape.ts'
import { wellKnownRoutes } from '../queries/administration/server-settings.ts'
import { attachmentDownloadRoutes } from '../queries/attachments/attachments.ts'
import { rawPageRoutes } from '../queries/contents/file-downloads.ts'
import { travelInTime } from '../queries/history/moments/time-travel.ts'
import { pullDiffPageRoutes } from '../queries/pull-requests/pull-git.ts'
import { archivePageRoutes } from '../queries/repositories/archives.ts'
import type { Services } from '../services/services.ts'
import { webRoutes } from '../web/web.ts'
import { API_ROUTES } from './api-routes.ts'
import { isOfNode } from './request-hooks.ts'

const API = '/api/v1'

/** After a wait longer than this (in milliseconds), a request waits for the events of the other servers again. */
const LONG_WAIT_MS = 100

interface SignIns {
  openRequests: OpenRequests
  signInRefused: Metrics['signInRefused']
}

export const signedInRoutes =
  (services: Services, { openRequests, signInRefused }: SignIns, scrape: Scrape): FastifyPluginAsync =>
  async (signedIn) => {
    /** Waits until the events that other servers have written are projected. */
    const waitForOthers = (request: FastifyRequest, done: (error?: Error) => void) => {
      if (isOfNode(request)) return done()
      const current = services.projector.current()
      if (current === undefined) done()
      else current.then(() => done(), done)
    }
    const waitAgainIfLate = (request: FastifyRequest, { elapsedTime }: FastifyReply, done: () => void) =>
      elapsedTime < LONG_WAIT_MS ? done() : waitForOthers(request, done)
    signedIn.addHook('onRequest', (request, _reply, done) => waitForOthers(request, done))
    // Before the hooks that sign in again: after a wait, a request continues with the permissions at that time.
    queueLargeBodies(signedIn, clientOf)
    signedIn.addHook('preValidation', waitAgainIfLate)
    signedIn.addHook('preHandler', waitAgainIfLate)
    await signedIn.register(authPlugin({ ...services, openRequests, signInRefused }))
    scheduleByAccount(signedIn, (request) => request.requester && clientOf(request))
    validateAfterAuthorization(signedIn)
    await signedIn.register(metricsRoute(() => scrape, services.config.metricsToken))
    await signedIn.register(gitHttpRoutes(services))
    await signedIn.register(lfsObjectRoutes(services))
    await signedIn.register(lfsLockRoutes(services))
    await signedIn.register(attachmentDownloadRoutes(services))
    await signedIn.register(rawPageRoutes(services))
    await signedIn.register(archivePageRoutes(services))
    await signedIn.register(pullDiffPageRoutes(services))
    await signedIn.register(wellKnownRoutes(services))
    await signedIn.register(webRoutes(services))
    await signedIn.register(
      async (api) => {
        decompressBodies(api)
        refuseOtherBodies(api)
        await compressAnswers(api)
        travelInTime(api, services)
        // Fastify searches all loaded modules for the name of a plugin without one.
        for (const { name, plugin } of API_ROUTES.map((routes) => ({
          name: routes.name,
          plugin: routes(services),
        }))) {
          api.register(fp(plugin, { name, encapsulate: true }))
        }
      },
      { prefix: API },
    )
  }
