/** Changes the data of a chain's upgrades, for site admins: `/admin/upgrade/…`. The Query service answers from it. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { ModuleVersionsWire, PlanWire, planWire } from '../../api/upgrade/upgrades.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { UpgradeEvent } from '../../events/catalog/upgrade.ts'
import { parseInt64, parseUint64 } from '../../events/int64.ts'
import { UPGRADE_STREAM } from '../../events/streams.ts'
import type { Decision } from '../execution/decider.ts'
import { execute } from '../execution/execute.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import {
  type ChainState,
  chainDecider,
  decideApplyPlan,
  decideCancelPlan,
  decideChangeAuthority,
  decideSchedulePlan,
  decideSetModuleVersions,
  decideStoreConsensusState,
} from './chain.decider.ts'

/** A 64-bit number. Numbers above 2^53 must be strings, since JSON rounds them. */
const Number64 = Type.Union([Type.String(), Type.Integer()])

const PlanOption = Type.Object(
  {
    name: Type.String({ maxLength: 1000 }),
    height: Number64,
    info: Type.Optional(Type.String({ maxLength: 100_000 })),
  },
  { title: 'PlanOption' },
)

const ApplyPlanOption = Type.Object({ height: Type.Optional(Number64) }, { title: 'ApplyPlanOption' })

const MAX_MODULES = 10_000

const ModuleVersionsOption = Type.Object(
  {
    module_versions: Type.Array(Type.Object({ name: Type.String({ maxLength: 1000 }), version: Number64 }), {
      maxItems: MAX_MODULES,
    }),
  },
  { title: 'ModuleVersionsOption' },
)
/** Maximum number of JSON values in a body: each module is an object with two fields. */
const MODULE_VALUES = 3 * MAX_MODULES + 100

const AuthorityOption = Type.Object(
  { address: Type.String({ maxLength: 1000 }) },
  { title: 'AuthorityOption' },
)

/** Matches complete groups, so that a truncated text is refused. Padding is optional. */
const BASE64 = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$'

const ConsensusStateOption = Type.Object(
  {
    upgraded_consensus_state: Type.String({
      description: 'Consensus state in base64',
      pattern: BASE64,
      maxLength: 1_000_000,
    }),
  },
  { title: 'ConsensusStateOption' },
)

/** Returns the number in decimal digits. @throws Refused (invalid) for other texts, and for a rounded number */
function number64(field: string, given: string | number, parse: typeof parseInt64, kind: string): string {
  const isExact = typeof given === 'string' || Number.isSafeInteger(given)
  const number = isExact ? parse(`${given}`) : undefined
  if (number !== undefined) return number
  throw new Refused(refuse.invalid(`${field}: must be an ${kind}, and a string above 2^53`))
}

const heightOf = (field: string, given: string | number) => number64(field, given, parseInt64, 'int64')

export const upgradeRoutes: Routes = (services) => {
  /** Applies a command. Resolves to the chain after it, once queries see the change. */
  async function change(
    request: FastifyRequest,
    reply: FastifyReply,
    step: string,
    decide: (state: ChainState) => Decision<UpgradeEvent>,
  ): Promise<ChainState> {
    const context = commandContext(request)
    const command = { stream: UPGRADE_STREAM, step, decider: chainDecider, decide }
    const state = await execute(services, context, command)
    await settled(services, context, reply)
    return state
  }

  return async (app) => {
    const tags = ['admin', 'upgrade']
    app.addHook('preValidation', async (request) => {
      siteAdmin(request, 'change the data of upgrades')
    })

    app.put(
      '/admin/upgrade/plan',
      route('admin', { tags, body: PlanOption, response: { 200: PlanWire } }),
      async (request, reply) => {
        const { name, info = '' } = request.body
        const plan = { name, height: heightOf('height', request.body.height), info }
        await change(request, reply, 'schedule plan', (state) => decideSchedulePlan(state, plan))
        return planWire(plan)
      },
    )

    app.delete(
      '/admin/upgrade/plan',
      route('admin', { tags, response: NO_CONTENT, refusals: ['notFound'] }),
      async (request, reply) => {
        await change(request, reply, 'cancel plan', decideCancelPlan)
        return reply.code(204).send(null)
      },
    )

    app.post(
      '/admin/upgrade/plan/apply',
      route('admin', {
        tags,
        description: "Records that the scheduled plan was applied: at the plan's height if none is given",
        body: Nullable(ApplyPlanOption),
        response: NO_CONTENT,
      }),
      async (request, reply) => {
        const given = request.body?.height
        const height = given === undefined ? undefined : heightOf('height', given)
        await change(request, reply, 'apply plan', (state) => decideApplyPlan(state, height))
        return reply.code(204).send(null)
      },
    )

    app.put(
      '/admin/upgrade/module_versions',
      {
        ...route('admin', { tags, body: ModuleVersionsOption, response: { 200: ModuleVersionsWire } }),
        config: { scope: 'admin', maxBodyValues: MODULE_VALUES },
      },
      async (request, reply) => {
        const versions = request.body.module_versions.map(({ name, version }) => ({
          name,
          version: number64(`module_versions: the version of "${name}"`, version, parseUint64, 'uint64'),
        }))
        const state = await change(request, reply, 'set module versions', (state) =>
          decideSetModuleVersions(state, versions),
        )
        return { module_versions: [...state.moduleVersions] }
      },
    )

    app.put(
      '/admin/upgrade/authority',
      route('admin', { tags, body: AuthorityOption, response: { 200: AuthorityOption } }),
      async (request, reply): Promise<Static<typeof AuthorityOption>> => {
        const { address } = request.body
        await change(request, reply, 'change authority', (state) => decideChangeAuthority(state, address))
        return { address }
      },
    )

    app.put(
      '/admin/upgrade/consensus_states/:last_height',
      route('admin', {
        tags,
        params: Type.Object({ last_height: Type.String() }),
        body: ConsensusStateOption,
        response: { 200: ConsensusStateOption },
      }),
      async (request, reply) => {
        const lastHeight = heightOf('last_height', request.params.last_height)
        const { upgraded_consensus_state } = request.body
        // Normalizes the encoding.
        const state = Buffer.from(upgraded_consensus_state, 'base64').toString('base64')
        await change(request, reply, 'store consensus state', (chain) =>
          decideStoreConsensusState(chain, lastHeight, state),
        )
        return { upgraded_consensus_state: state }
      },
    )
  }
}
