/** Creates an organization: `POST /orgs`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { AccountRef } from '../../events/domain-events.ts'
import { idsStream, organizationStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { signedIn } from '../../rights/requester.ts'
import type { Services } from '../../services.ts'
import { OrganizationWire, organizationWire } from '../../wire/organizations.ts'
import { takeLogin } from '../accounts/claims.ts'
import { createdAccount } from '../accounts/created-account.ts'
import { type CommandContext, execute, load } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import {
  decideCreateOrganization,
  type OrganizationDetails,
  organizationDecider,
  organizationProblem,
} from './organization.ts'

const CreateOrgOption = Type.Object({
  username: Type.String(),
  full_name: Type.Optional(Type.String({ maxLength: 100 })),
  description: Type.Optional(Type.String({ maxLength: 255 })),
  email: Type.Optional(Type.String()),
  location: Type.Optional(Type.String({ maxLength: 50 })),
  website: Type.Optional(Type.String({ maxLength: 255 })),
  visibility: Type.Optional(Type.Enum(['public', 'limited', 'private'])),
})

/**
 * Creates an organization with its creator as the first admin. Resolves to its id. The order is number, claim, events:
 * after a crash no half of an organization is visible.
 *
 * @throws Refused (unprocessable) for a bad or taken name
 */
async function createOrganization(
  { events }: Pick<Services, 'events'>,
  context: CommandContext,
  details: OrganizationDetails,
  creator: AccountRef,
): Promise<number> {
  const problem = organizationProblem(details)
  if (problem !== undefined) throw new Refused(problem)
  const id = await takeNumber(events, context, idsStream('account'))
  const stream = organizationStream(id)
  // A retried request finds its organization and must not claim the name again.
  const { revision } = await load(events, stream, organizationDecider)
  if (revision === null && !(await takeLogin(events, context, details.login, stream))) {
    throw new Refused(refuse.unprocessable(`username: "${details.login}" is taken`))
  }
  await execute(events, context, {
    stream,
    step: 'create',
    decider: organizationDecider,
    decide: (state) => decideCreateOrganization(state, id, details, creator),
  })
  return id
}

export function createOrganizationRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/orgs',
      {
        config: { scope: 'organization' },
        schema: { tags: ['organization'], body: CreateOrgOption, response: { 201: OrganizationWire } },
      },
      async (request, reply) => {
        const { id: creatorId, login } = signedIn(request)
        const { body } = request
        const details: OrganizationDetails = {
          login: body.username,
          fullName: body.full_name ?? '',
          description: body.description ?? '',
          email: body.email ?? '',
          location: body.location ?? '',
          website: body.website ?? '',
          visibility: body.visibility ?? 'public',
        }
        const context = commandContext(request)
        const id = await createOrganization(services, context, details, { id: creatorId, login })
        await settled(services, context, reply)
        const organization = await createdAccount(services, organizationStream(id), id)
        return reply.code(201).send(organizationWire(organization))
      },
    )
  }
}
