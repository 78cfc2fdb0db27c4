/** Creates an organization: `POST /orgs`, or `POST /admin/users/{username}/orgs` for another user. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { OrganizationWire, organizationWire } from '../../api/organizations/organizations.ts'
import { UsernameParams, userNamed } from '../../api/users/users.ts'
import { signedIn, siteAdmin } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import { idsStream, organizationStream } from '../../events/streams.ts'
import { type AccountDocument, accountFold } from '../../projections/models/users/accounts.fold.ts'
import { organizations } from '../execution/aggregates.ts'
import { load } from '../execution/load.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { claimName } from '../users/accounts/claims.ts'
import { requireOrganizationQuota } from './membership-limits.ts'
import { organizationOptions } from './options.ts'
import {
  decideCreateOrganization,
  type OrganizationDetails,
  organizationDecider,
  organizationProblem,
} from './organization.decider.ts'

const CreateOrgOption = Type.Object(
  {
    username: Type.String(),
    ...organizationOptions,
  },
  { title: 'CreateOrgOption' },
)

/** The order is number, claim, events: a crash leaves no visible part of an organization. */
export const createOrganizationRoutes: Routes = (services) => {
  const { views } = services

  async function create(
    request: FastifyRequest & { body: Static<typeof CreateOrgOption> },
    reply: FastifyReply,
    creator: AccountDocument,
  ) {
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
    const problem = organizationProblem(details)
    if (problem !== undefined) throw new Refused(problem)
    const id = await takeNumber(services, context, idsStream('account'))
    const stream = organizationStream(id)
    // A retried request finds its organization, and must not claim the name again.
    const { revision } = await load(services, stream, organizationDecider)
    if (revision === null) {
      requireOrganizationQuota(creator, id)
      if (!(await claimName(services, context, 'login', details.login, stream)))
        throw new Refused(
          coded('username_taken', refuse.unprocessable(`username: "${details.login}" is taken`)),
        )
    }
    await organizations.change(services, context, id, 'create', (state) =>
      decideCreateOrganization(state, id, details, { id: creator.id, login: creator.login }),
    )
    await settled(services, context, reply)
    const source = { id, stream, view: views.accounts, fold: accountFold }
    return reply.code(201).send(organizationWire(await loadDocument(services, 'organization', source)))
  }

  return async (app) => {
    const schema = { body: CreateOrgOption, response: { 201: OrganizationWire } }

    app.post('/orgs', route('organization', schema), async (request, reply) =>
      create(request, reply, signedIn(request)),
    )

    app.post(
      '/admin/users/:username/orgs',
      route('admin', { ...schema, params: UsernameParams }),
      async (request, reply) => {
        siteAdmin(request, 'create organizations for other users')
        return create(request, reply, await userNamed(services, request.params.username))
      },
    )
  }
}
