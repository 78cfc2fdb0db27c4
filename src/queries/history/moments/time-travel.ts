/** `?at=` and the header `Mergelog-At`: answers of the past, from the routes of the present. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { repositoryAt } from '../../../access/repository-access.ts'
import { canSee } from '../../../access/visibility.ts'
import { clientOf, signedIn } from '../../../auth/requester.ts'
import { comparableTime, lastInstantOfDay } from '../../../domain/times.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { exposeHeaders } from '../../../http/answers/exposed-headers.ts'
import { disconnectSignal } from '../../../http/requests/client-disconnect.ts'
import { currentMoment, runAt, runNow, type Subject, type WantedMoment } from '../../../services/moment.ts'
import type { Services } from '../../../services/services.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The moment that the client wants; null for now. */
    wantedMoment: WantedMoment | null
  }
}

const HEADER = 'Mergelog-At'
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * Returns the moment in a text: a date, a time, or `@` and a position of the log. Undefined for other texts. Times without a
 * fraction mean the end of that second, dates the end of that day in UTC.
 */
export function wantedMomentIn(text: string): WantedMoment | undefined {
  if (/^@\d{1,16}$/.test(text)) {
    const position = Number(text.slice(1))
    return Number.isSafeInteger(position) ? { position } : undefined
  }
  const instant = lastInstantOfDay(text)
  return instant === undefined ? undefined : { at: comparableTime(instant) }
}

/** Returns the moment in a field of a request. @throws Refused (unprocessable) */
export function momentIn(field: string, text: unknown): WantedMoment {
  const wanted = typeof text === 'string' ? wantedMomentIn(text) : undefined
  if (wanted !== undefined) return wanted
  const format = 'must be a date as 2026-11-26, a date-time as in RFC 3339, or a position of the log as @1234'
  throw new Refused(refuse.unprocessable(`${field}: ${format}`))
}

/**
 * Routes below a repository that have no past: what belongs to the requester alone, deliveries, logs, measurements, and the
 * evidence of merges, which never changes.
 */
const WITHOUT_PAST: readonly RegExp[] = [
  /^\/(?:subscription|notifications|history|changes|evidence)$/,
  /^\/pulls\/:index\/evidence$/,
  /^\/hooks(?:\/|$)/,
  /^\/issues\/:index\/subscriptions/,
  /^\/(?:issues|pulls)\/:index\/history$/,
  /\/replay(?:\/diff)?$/,
  // The evidence of a merge is of its own moment.
  /^\/(?:pulls\/:index\/)?evidence$/,
]

const OF_REPOSITORY = '/api/v1/repos/:owner/:repo'
const OF_ORGANIZATION =
  /^\/api\/v1\/orgs\/:org(?:\/(?:(?:public_)?members(?:\/:username)?|teams(?:\/search)?))?$/
const OF_TEAM = /^\/api\/v1\/teams\/:id(?:\/members(?:\/:username)?)?$/
const OF_USER = '/api/v1/users/:username'

type Kind = 'repository' | 'organization' | 'team' | 'user'

/** Returns the kind of resource whose past a route can show. */
function kindOf(url: string): Kind | undefined {
  if (url === OF_REPOSITORY || url.startsWith(`${OF_REPOSITORY}/`)) {
    const rest = url.slice(OF_REPOSITORY.length)
    return WITHOUT_PAST.some((pattern) => pattern.test(rest)) ? undefined : 'repository'
  }
  if (OF_ORGANIZATION.test(url)) return 'organization'
  if (OF_TEAM.test(url)) return 'team'
  return url === OF_USER ? 'user' : undefined
}

/** Whether a route can answer from the past. `url` is its pattern. */
export const canShowPast = (url: string): boolean => kindOf(url) !== undefined

/** Whether the route's own query has a parameter `at`: replays. */
function hasOwnMoment({ routeOptions }: FastifyRequest): boolean {
  const query: unknown = routeOptions.schema?.querystring
  const properties: unknown = isObject(query) ? Reflect.get(query, 'properties') : undefined
  return isObject(properties) && 'at' in properties
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

const fieldOf = (fields: unknown, name: string): unknown =>
  isObject(fields) ? Reflect.get(fields, name) : undefined

const unprocessable = (message: string) => new Refused(refuse.unprocessable(`at: ${message}`))

/** The moment that a request wants. @throws Refused (unprocessable) */
function wantedBy(request: FastifyRequest): WantedMoment | null {
  const { method, routeOptions, headers } = request
  const ofHeader = headers[HEADER.toLowerCase()]
  const ofQuery = fieldOf(request.query, 'at')
  if (ofHeader === undefined && (ofQuery === undefined || hasOwnMoment(request))) return null
  if (!READS.has(method)) throw unprocessable('only reads can name a moment; the past cannot be changed')
  if (!canShowPast(routeOptions.url ?? '')) throw unprocessable('this route cannot show the past')
  if (ofHeader !== undefined && ofQuery !== undefined) {
    throw unprocessable(`cannot be given together with the header ${HEADER}`)
  }
  return momentIn('at', ofQuery ?? ofHeader)
}

/**
 * Lets the routes that are registered in this scope answer from a past moment. They run in it; the hooks before, which sign in
 * and check the permission of now, do not.
 */
export function travelInTime(app: FastifyInstance, services: Services): void {
  const { moments, views } = services

  /** The resource in the path, by its present name, if the requester may see it now. @throws Refused */
  async function subjectOf({ routeOptions, params, requester }: FastifyRequest): Promise<Subject> {
    const param = (name: string) => String(fieldOf(params, name) ?? '')
    const kind = kindOf(routeOptions.url ?? '') ?? 'repository'
    if (kind === 'repository') {
      const path = { owner: param('owner'), repo: param('repo') }
      const { repository } = await repositoryAt(services, requester, path, 'read')
      return { kind, id: repository.id }
    }
    if (kind === 'team') {
      signedIn({ requester })
      const team = await views.teams.get(param('id'))
      const organization = await views.accounts.get(
        team === undefined ? param('id') : `${team.organizationId}`,
      )
      if (organization?.kind !== 'organization' || !canSee(organization, requester)) {
        throw new Refused(refuse.notFound('team not found'))
      }
      return { kind: 'organization', id: organization.id }
    }
    const name = kind === 'organization' ? param('org') : param('username')
    const account = await views.accounts.findOne({ loginKey: name.toLowerCase() })
    const isRight = account !== undefined && (kind === 'user' || account.kind === 'organization')
    if (!isRight || !canSee(account, requester)) throw new Refused(refuse.notFound(`${kind} not found`))
    return { kind: account.kind, id: account.id }
  }

  async function travel(
    request: FastifyRequest,
    reply: FastifyReply,
    wanted: WantedMoment,
    done: (error?: Error) => void,
  ): Promise<void> {
    const subject = await subjectOf(request)
    const point = await moments.resolve(subject, wanted)
    if (point === undefined)
      throw new Refused(refuse.notFound(`the ${subject.kind} did not exist at that moment`))
    reply.header(HEADER, `@${point.position} ${point.at}`)
    exposeHeaders(reply, HEADER)
    if (point.isNow) return done()
    const gone = disconnectSignal(reply)
    const moment = await moments.open(subject, point, { client: clientOf(request), gone })
    if (reply.raw.closed) moment.release()
    else reply.raw.once('close', moment.release)
    gone.throwIfAborted()
    runAt(moment, done)
  }

  app.decorateRequest('wantedMoment', null)
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.is404) return done()
    request.wantedMoment = wantedBy(request)
    done()
  })
  app.addHook('preHandler', (request, reply, done) => {
    const { wantedMoment } = request
    if (wantedMoment === null) {
      // A queue of callbacks may continue a request in the context of another one.
      if (currentMoment() === undefined) done()
      else runNow(done)
      return
    }
    travel(request, reply, wantedMoment, done).catch(done)
  })
}
