/** Users, tokens and organizations over HTTP, on embedded stores in the test's own directory. */
import { join } from 'node:path'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type InjectOptions } from 'fastify'
import type { Test } from 'tap'
import { historyJson } from '../../src/api/history/history.ts'
import { authPlugin } from '../../src/auth/auth.ts'
import { createOpenRequests } from '../../src/auth/open-requests.ts'
import { SIGN_IN_LIMITS, type SignInLimits } from '../../src/auth/passwords/password-checks.ts'
import { type Cost, hashPassword, makeHashesWith } from '../../src/auth/passwords/passwords.ts'
import { secretCollections } from '../../src/auth/secrets.ts'
import type { CommandContext } from '../../src/commands/execution/command-context.ts'
import { createOrganizationRoutes } from '../../src/commands/organizations/create.ts'
import { memberRoutes } from '../../src/commands/organizations/members.ts'
import { createUser, createUserRoutes } from '../../src/commands/users/create.ts'
import { tokenRoutes } from '../../src/commands/users/tokens.ts'
import { createKeyedMutex } from '../../src/concurrency/keyed-mutex.ts'
import { loadConfig } from '../../src/config/config.ts'
import { aloneNode } from '../../src/events/nodes/nodes.ts'
import { LOG_START, type RecordedEvent } from '../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { createGitLimits } from '../../src/git/process/limits.ts'
import { openPushJournal } from '../../src/git/push/push-journal.ts'
import { registerErrors } from '../../src/http/answers/errors.ts'
import { withGenerations } from '../../src/projections/generations/generations.ts'
import { createDiskUsage } from '../../src/projections/installation/disk-usage.ts'
import { createLiveEvents } from '../../src/projections/live/live-events.ts'
import { accountFold } from '../../src/projections/models/users/accounts.fold.ts'
import { tokenFold } from '../../src/projections/models/users/tokens.fold.ts'
import { createWebhookDeliveries } from '../../src/projections/models/webhooks/webhook-deliveries.fold.ts'
import { createProjector } from '../../src/projections/projector/projector.ts'
import { readModel } from '../../src/projections/projector/read-model.ts'
import { createRebuild } from '../../src/projections/projector/rebuild.ts'
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { createAccountChanges } from '../../src/projections/views/account-changes.ts'
import { createViews } from '../../src/projections/views/views.ts'
import { createMoments } from '../../src/queries/history/moments/moments.ts'
import { organizationQueryRoutes } from '../../src/queries/organizations/organizations.ts'
import { userQueryRoutes } from '../../src/queries/users/users.ts'
import { withOpenTexts } from '../../src/server/stores.ts'
import { createHistoryCaches } from '../../src/services/history/history-caches.ts'
import { createSecretStore } from '../../src/services/secret-store.ts'
import type { Services } from '../../src/services/services.ts'
import { createWriteState } from '../../src/services/writes/write-state.ts'
import { openAttachmentFiles } from '../../src/storage/attachments/files.ts'
import { recordNow } from '../../src/storage/steady-clock.ts'

export const ADMIN_PASSWORD = 'correct horse'

/** A hash that costs nothing to check. */
const CHEAP = { N: 2, r: 1, p: 1 }

export const basic = (login: string, password: string) =>
  `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`

export const passwordOf = (login: string) => `password of ${login}`

export async function identityApp(
  test: Test,
  {
    limits = SIGN_IN_LIMITS,
    projectionWaitMs = 5000,
    newHashes = CHEAP,
  }: { limits?: SignInLimits; projectionWaitMs?: number; newHashes?: Cost } = {},
) {
  makeHashesWith(newHashes)
  const dir = test.testdir()
  const config = loadConfig({ DATA_DIR: dir, ADMIN_PASSWORD, PROJECTION_WAIT_MS: `${projectionWaitMs}` })
  const app = Fastify({
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, allErrors: false } },
  }).withTypeProvider<TypeBoxTypeProvider>()
  const events = openSqliteEventStore(join(dir, 'events.db'))
  const readStore = openSqliteReadStore(join(dir, 'views.db'))
  const secrets = createSecretStore(openSqliteReadStore(join(dir, 'secrets.db'), 'FULL'))
  await secrets.prepare(secretCollections)
  const views = createViews(readStore)
  const projector = createProjector({
    log: app.log,
    events,
    views: readStore,
    models: [readModel(accountFold), readModel(tokenFold)],
    applied: (touched) => {
      for (const view of Object.values(views)) view.applied(touched)
      openRequests.applied(touched)
    },
  })
  const accountChanges = createAccountChanges()
  const openRequests = createOpenRequests({ events, views, accountChanges, projector, secrets })
  const diskUsage = createDiskUsage(readStore)
  const historyCaches = createHistoryCaches(events)
  const publicUrl = () => 'http://git.example.org:3000'
  const moments = await createMoments(
    { events, views, diskUsage, historyCaches, publicUrl },
    { directory: join(dir, 'moments'), deadlineMs: config.readTimeoutMs },
  )
  const services: Services = {
    config,
    log: app.log,
    events,
    writeState: createWriteState(),
    texts: withOpenTexts(events, secrets, app.log),
    readStore,
    views,
    accountChanges,
    secrets,
    nodes: aloneNode('test'),
    runExclusive: createKeyedMutex(),
    projector,
    rebuilder: createRebuild({
      events,
      generations: withGenerations(readStore),
      projector,
      exchanged: () => {},
      signal: new AbortController().signal,
    }),
    gitDir: join(dir, 'git'),
    gitLimits: createGitLimits(config),
    diskUsage,
    webhookDeliveries: createWebhookDeliveries(readStore),
    freeSpace: { require: async () => {} },
    startedAt: recordNow(),
    startedAfter: LOG_START,
    attachments: await openAttachmentFiles(join(dir, 'attachments')),
    pushJournal: await openPushJournal(join(dir, 'pushes')),
    historyCaches,
    moments,
    checkpoints: undefined,
    live: createLiveEvents({ events, projector, toJson: historyJson, log: app.log }),
    publicUrl,
  }
  await projector.start()
  await addUser('admin', ADMIN_PASSWORD, true)

  registerErrors(app, () => 'http://git.example.org:3000/api/docs')
  await app.register(authPlugin({ ...services, openRequests }, limits))
  await app.register(
    async (api) => {
      await api.register(createUserRoutes(services))
      await api.register(tokenRoutes(services))
      await api.register(createOrganizationRoutes(services))
      await api.register(memberRoutes(services))
      await api.register(userQueryRoutes(services))
      await api.register(organizationQueryRoutes(services))
      const who = async (request: { requester: { login: string } | null }) => ({
        login: request.requester?.login ?? null,
      })
      api.get('/repos/probe', who)
      api.post('/repos/probe', who)
      api.post('/repos/fetch', { config: { scopeLevel: 'read' } }, who)
    },
    { prefix: '/api/v1' },
  )
  test.teardown(async () => {
    await app.close()
    await projector.stop()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
  })

  /** Sends a request below `/api/v1`. */
  async function call(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    options: { as?: string; body?: unknown; headers?: Record<string, string>; ip?: string } = {},
  ) {
    const { as, body, headers = {}, ip } = options
    const request: InjectOptions = { method, url: `/api/v1${path}`, headers: { ...headers } }
    if (as !== undefined) request.headers = { ...request.headers, authorization: as }
    if (body !== undefined) {
      request.payload = JSON.stringify(body)
      request.headers = { ...request.headers, 'content-type': 'application/json' }
    }
    if (ip !== undefined) request.remoteAddress = ip
    const response = await app.inject(request)
    const json = response.body === '' ? null : response.json()
    return { status: response.statusCode, body: json, headers: response.headers }
  }

  const admin = basic('admin', ADMIN_PASSWORD)

  /** Creates a user with a cheap password hash, because most tests do not concern passwords. */
  async function addUser(login: string, password: string, siteAdmin: boolean): Promise<void> {
    const context: CommandContext = {
      actor: null,
      at: new Date().toISOString(),
      correlationId: 'test',
      causationId: 'test',
      written: LOG_START,
    }
    const details = { login, email: `${login}@example.org`, fullName: '', siteAdmin }
    await createUser(services, context, details, password, (text) => hashPassword(text, CHEAP))
    await projector.waitFor(context.written, 5000)
  }

  /** Creates users with passwords `passwordOf(login)`. Their ids start at 2, in this order. */
  async function signUp(...logins: string[]): Promise<void> {
    for (const login of logins) await addUser(login, passwordOf(login), false)
  }

  /** Returns all events, to check that none was added. */
  async function log(): Promise<RecordedEvent[]> {
    return await Array.fromAsync(events.readAll())
  }

  /** Returns the `Authorization` header with a new token of the user with these scopes. */
  async function tokenOf(login: string, ...scopes: string[]): Promise<string> {
    const { body } = await call('POST', `/users/${login}/tokens`, {
      as: basic(login, passwordOf(login)),
      body: { name: scopes.join(' '), scopes },
    })
    return `token ${body.sha1}`
  }

  return { app, services, call, admin, signUp, tokenOf, log }
}
