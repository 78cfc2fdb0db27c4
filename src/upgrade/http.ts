/**
 * The Query service over HTTP: one GET route for each method. The answers are protobuf's JSON mapping, like those of a
 * chain's gateway. They are public, as on a chain.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { status } from '@grpc/grpc-js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { Nullable } from '../api/nullable.ts'
import { Int64, ModuleVersionsWire, PlanWire, planWire } from '../api/upgrade/upgrades.ts'
import { Refused } from '../errors/refusal.ts'
import { parseInt64 } from '../events/int64.ts'
import { OptionalText } from '../http/requests/optional-text.ts'
import { type UpgradeAnswers, UpgradeUnavailable } from './answers.ts'
import { httpStatusOf, InvalidArgument, type Problem, problemOf, UnknownModule } from './problems.ts'

/** The base paths of the methods. The first one is from the spec; only it is in the API documentation. */
const BASES = [
  '/sdk/upgrade/v1beta1',
  '/cosmos/upgrade/v1beta1',
  '/api/v1/sdk/upgrade/v1beta1',
  '/api/v1/cosmos/upgrade/v1beta1',
]

/** The release date of the Cosmos SDK 0.43, which deprecated the method, in the form of RFC 9745. */
const DEPRECATED_SINCE = '@1628553600'

const CurrentPlanResponse = Type.Object({ plan: Nullable(PlanWire) })
const AppliedPlanResponse = Type.Object({ height: Int64 })
const AuthorityResponse = Type.Object({ address: Type.String() })
const ConsensusStateResponse = Type.Object({
  upgraded_consensus_state: Type.String({ description: 'Consensus state in base64' }),
})
const ErrorResponse = Type.Object(
  {
    code: Type.Integer({ description: 'Status code of gRPC' }),
    message: Type.String(),
    details: Type.Array(Type.Any()),
  },
  { title: 'UpgradeError' },
)

/** Whether a path belongs to the Query service. Its errors have their own shape. */
export const isUpgradePath = (url: string) => BASES.some((base) => url.startsWith(`${base}/`))

/** Sends an error in the shape of a chain's gateway. */
export function sendUpgradeProblem(error: Error, request: FastifyRequest, reply: FastifyReply) {
  const problem = problemOf(error)
  const httpStatus = httpStatusOf(problem.code)
  // A refusal is a normal answer, as on other routes: it is not logged as an error, even with status 503.
  const isRefusal = error instanceof Refused || error instanceof UpgradeUnavailable
  if (httpStatus >= 500 && isRefusal) request.log.info(problem.message)
  else if (httpStatus >= 500) request.log.error({ err: error }, problem.message)
  if (httpStatus === 503 && problem.lasts !== true) reply.header('Retry-After', '1')
  return reply.code(httpStatus).type('application/json').send(errorBody(problem))
}

const errorBody = ({ code, message }: Problem) => ({ code, message, details: [] })

/** All routes of the Query service. Register them outside of the scope that authenticates requests. */
export function upgradeHttpRoutes(answers: UpgradeAnswers) {
  return async (app: FastifyInstance) => {
    for (const [i, base] of BASES.entries()) {
      await app.register(methods(answers, i > 0), { prefix: base })
    }
  }
}

function methods(answers: UpgradeAnswers, hide: boolean): FastifyPluginAsyncTypebox {
  const documented = { hide, tags: ['upgrade'], security: [] }

  return async (app) => {
    app.setErrorHandler(sendUpgradeProblem)
    app.setNotFoundHandler((_request, reply) => {
      const problem = { code: status.UNIMPLEMENTED, message: 'Not Implemented' }
      return reply.code(httpStatusOf(problem.code)).send(errorBody(problem))
    })

    const responses = <T>(response: T) => ({ 200: response, default: ErrorResponse })

    app.get(
      '/current_plan',
      { schema: { ...documented, summary: 'CurrentPlan', response: responses(CurrentPlanResponse) } },
      async () => {
        const plan = await answers.currentPlan()
        return { plan: plan && planWire(plan) }
      },
    )

    app.get(
      '/applied_plan/:name',
      {
        schema: {
          ...documented,
          summary: 'AppliedPlan: height 0 when no plan of that name was applied',
          params: Type.Object({ name: Type.String() }),
          response: responses(AppliedPlanResponse),
        },
      },
      async (request) => ({ height: await answers.appliedHeight(request.params.name) }),
    )

    app.get(
      '/upgraded_consensus_state/:last_height',
      {
        schema: {
          ...documented,
          deprecated: true,
          summary: 'UpgradedConsensusState: ask the inter-chain client module instead',
          params: Type.Object({ last_height: Int64 }),
          response: responses(ConsensusStateResponse),
        },
      },
      async (request, reply) => {
        reply.header('Deprecation', DEPRECATED_SINCE)
        const height = parseInt64(request.params.last_height)
        if (height === undefined) throw new InvalidArgument('last_height: must be an int64')
        const state = await answers.upgradedConsensusState(height)
        return { upgraded_consensus_state: state.toString('base64') }
      },
    )

    app.get(
      '/module_versions',
      {
        schema: {
          ...documented,
          summary: 'ModuleVersions: of all modules, or of one (since 0.43)',
          querystring: Type.Object({
            module_name: Type.Optional(Type.String()),
            moduleName: OptionalText("Same as module_name, in JSON's spelling"),
          }),
          response: responses(ModuleVersionsWire),
        },
      },
      async (request) => {
        const { module_name, moduleName } = request.query
        const name = module_name ?? moduleName ?? ''
        const versions = await answers.moduleVersions(name)
        if (versions === undefined) throw new UnknownModule(name)
        return { module_versions: [...versions] }
      },
    )

    app.get(
      '/authority',
      {
        schema: { ...documented, summary: 'Authority (since 0.46)', response: responses(AuthorityResponse) },
      },
      async () => ({ address: await answers.authority() }),
    )
  }
}
