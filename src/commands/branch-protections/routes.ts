/** Protecting branches: making, changing and removing rules, `/repos/{owner}/{repo}/branch_protections`. */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { BranchProtection, RepositoryEvent } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { globProblem, isPattern } from '../../rights/glob.ts'
import { onRepository } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import {
  BranchProtectionWire,
  NEUTRAL,
  ProtectionFields,
  ProtectionParams,
  protectionNamed,
  protectionWire,
} from '../../wire/branch-protections.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { type RepositoryState, repositoryDecider } from '../repositories/repository.ts'
import { commandContext, settled } from '../request-context.ts'
import {
  decideAddProtection,
  decideEditProtection,
  decideRemoveProtection,
  type ProtectionSettings,
} from './protections.ts'

const ProtectionOptions = Type.Partial(Type.Object(ProtectionFields))

/** `rule_name` and the older `branch_name` mean the same; one of them must be there. */
const CreateProtectionOptions = Type.Partial(
  Type.Object({ rule_name: Type.String(), branch_name: Type.String(), ...ProtectionFields }),
)

type Options = Static<typeof ProtectionOptions>

const MAX_RULE_LENGTH = 255
const MAX_NAMES = 100
/** Of the contexts of a rule that are patterns: each is matched against all statuses of a commit. */
const MAX_CONTEXT_PATTERNS_LENGTH = 500

/** What a rule is before anyone says more: no pushes, and merging by writers. */
const PROTECTED: Omit<ProtectionSettings, 'rule'> = {
  priority: 0,
  push: false,
  pushers: null,
  mergers: null,
  statusCheck: false,
  contexts: [],
  requireSigned: false,
  blockOutdated: false,
  blockAdminOverride: false,
}

/** Clients send null for what they do not say; then it is as if it were not there. */
async function dropNulls(request: FastifyRequest): Promise<void> {
  const { body } = request
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return
  request.body = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

function unprocessable(problem: string): Refused {
  return new Refused(refuse.unprocessable(problem))
}

function ruleOf(body: { rule_name?: string; branch_name?: string }): string {
  const [field, rule] =
    body.rule_name === undefined || body.rule_name === ''
      ? ['branch_name', body.branch_name ?? '']
      : ['rule_name', body.rule_name]
  if (rule === '') throw unprocessable('rule_name: must not be empty')
  if (rule.length > MAX_RULE_LENGTH)
    throw unprocessable(`${field}: has more than ${MAX_RULE_LENGTH} characters`)
  const problem = globProblem(rule)
  if (problem !== undefined) throw unprocessable(`${field}: ${problem}`)
  return rule
}

/** A protection that is asked for and would not protect is refused. */
function requireEnforced(options: Options): void {
  for (const [field, neutral] of Object.entries(NEUTRAL)) {
    const wanted: unknown = Reflect.get(options, field)
    if (wanted !== undefined && JSON.stringify(wanted) !== JSON.stringify(neutral)) {
      throw unprocessable(`${field}: is not supported, only ${JSON.stringify(neutral)} is`)
    }
  }
}

function requireContexts(contexts: readonly string[]): void {
  const field = 'status_check_contexts'
  if (contexts.length > MAX_NAMES) throw unprocessable(`${field}: has more than ${MAX_NAMES} contexts`)
  let length = 0
  for (const context of contexts) {
    if (context === '' || context.length > MAX_RULE_LENGTH) {
      throw unprocessable(`${field}: a context has 1 to ${MAX_RULE_LENGTH} characters`)
    }
    const problem = globProblem(context)
    if (problem !== undefined) throw unprocessable(`${field}: ${JSON.stringify(context)} ${problem}`)
    if (isPattern(context)) length += context.length
  }
  if (length > MAX_CONTEXT_PATTERNS_LENGTH) {
    throw unprocessable(
      `${field}: its patterns have ${MAX_CONTEXT_PATTERNS_LENGTH} characters together at most`,
    )
  }
}

/** Ids of the users that the options name. */
interface NamedUsers {
  pushers: number[] | undefined
  mergers: number[] | undefined
}

/**
 * The list of those who may: null without a list, and an empty list when it is enabled and nobody is named.
 * Names that would not count are a mistake that must not pass silently.
 */
function whitelistOf(
  before: number[] | null,
  field: string,
  {
    enable,
    named,
    possible,
  }: { enable: boolean | undefined; named: number[] | undefined; possible: boolean },
): number[] | null {
  const enabled = possible && (enable ?? before !== null)
  if (enabled) return named ?? before ?? []
  if (named !== undefined && named.length > 0) {
    throw unprocessable(`${field}_whitelist_usernames: needs enable_${field}_whitelist`)
  }
  return null
}

/** The settings with what the options change of them. @throws Refused for options that contradict each other */
function withOptions(before: ProtectionSettings, options: Options, named: NamedUsers): ProtectionSettings {
  const push = options.enable_push ?? before.push
  return {
    rule: before.rule,
    priority: options.priority ?? before.priority,
    push,
    pushers: whitelistOf(before.pushers, 'push', {
      enable: options.enable_push_whitelist,
      named: named.pushers,
      possible: push,
    }),
    mergers: whitelistOf(before.mergers, 'merge', {
      enable: options.enable_merge_whitelist,
      named: named.mergers,
      possible: true,
    }),
    statusCheck: options.enable_status_check ?? before.statusCheck,
    contexts: [...new Set(options.status_check_contexts ?? before.contexts)],
    requireSigned: options.require_signed_commits ?? before.requireSigned,
    blockOutdated: options.block_on_outdated_branch ?? before.blockOutdated,
    blockAdminOverride: options.block_admin_merge_override ?? before.blockAdminOverride,
  }
}

export function branchProtectionRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events, views } = services

  async function userIdsNamed(
    field: string,
    logins: readonly string[] | undefined,
  ): Promise<number[] | undefined> {
    if (logins === undefined) return undefined
    if (logins.length > MAX_NAMES) throw unprocessable(`${field}: has more than ${MAX_NAMES} users`)
    const keys = [...new Set(logins.map((login) => login.toLowerCase()))]
    const found = keys.length === 0 ? [] : await views.accounts.find({ loginKey: { $in: keys } })
    const ids = new Map(
      found.flatMap(({ kind, login, id }) => (kind === 'user' ? [[login.toLowerCase(), id]] : [])),
    )
    return keys.map((key) => {
      const id = ids.get(key)
      if (id === undefined) throw unprocessable(`${field}: user "${key}" does not exist`)
      return id
    })
  }

  /** Those whom the options name, after a look at all that is wrong with the options alone. */
  async function checkOptions(options: Options): Promise<NamedUsers> {
    requireEnforced(options)
    requireContexts(options.status_check_contexts ?? [])
    return {
      pushers: await userIdsNamed('push_whitelist_usernames', options.push_whitelist_usernames),
      mergers: await userIdsNamed('merge_whitelist_usernames', options.merge_whitelist_usernames),
    }
  }

  /** Resolves to the rule as it then is, when it is: the read models may lag behind. */
  async function carryOut(
    { repoId, rule }: { repoId: number; rule: string },
    context: CommandContext,
    reply: FastifyReply,
    decide: (state: RepositoryState) => Decision<RepositoryEvent>,
  ): Promise<BranchProtection | undefined> {
    const stream = repositoryStream(repoId)
    const state = await execute(events, context, {
      stream,
      step: 'protect',
      decider: repositoryDecider,
      decide,
    })
    await settled(services, context, reply)
    return state.status === 'active'
      ? state.protections.find((protection) => protection.rule === rule)
      : undefined
  }

  return async (app) => {
    const tags = ['repository']

    app.post(
      '/repos/:owner/:repo/branch_protections',
      {
        preValidation: dropNulls,
        schema: {
          tags,
          params: RepositoryParams,
          body: CreateProtectionOptions,
          response: { 201: BranchProtectionWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = ruleOf(request.body)
        const named = await checkOptions(request.body)
        const settings = withOptions({ ...PROTECTED, rule }, request.body, named)
        const context = commandContext(request)
        const made = await carryOut({ repoId: repository.id, rule }, context, reply, (state) =>
          decideAddProtection(state, settings, context.at),
        )
        return reply.code(201).send(await protectionWire(services, made))
      },
    )

    app.patch(
      '/repos/:owner/:repo/branch_protections/*',
      {
        preValidation: dropNulls,
        schema: {
          tags,
          params: ProtectionParams,
          body: ProtectionOptions,
          response: { 200: BranchProtectionWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = request.params['*']
        // A rule that does not exist gives 404, whatever the body says.
        protectionNamed(repository, rule)
        const named = await checkOptions(request.body)
        const context = commandContext(request)
        const edit = (before: BranchProtection) => withOptions(before, request.body, named)
        const edited = await carryOut({ repoId: repository.id, rule }, context, reply, (state) =>
          decideEditProtection(state, rule, edit, context.at),
        )
        return await protectionWire(services, edited)
      },
    )

    app.delete(
      '/repos/:owner/:repo/branch_protections/*',
      { schema: { tags, params: ProtectionParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = request.params['*']
        await carryOut({ repoId: repository.id, rule }, commandContext(request), reply, (state) =>
          decideRemoveProtection(state, rule),
        )
        return reply.code(204).send(null)
      },
    )
  }
}
