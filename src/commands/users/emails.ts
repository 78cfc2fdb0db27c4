/** Adds and removes addresses of the requester: `POST` and `DELETE /user/emails`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { EmailWire, emailWires, noReplyAddress } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import { claimKeys, userStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { users } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { claimName } from './accounts/claims.ts'
import { withUserLock } from './change.ts'
import { decideAddEmails, decideRemoveEmails } from './user.decider.ts'

const MAX_EMAILS = 100
const EmailsOption = Type.Object(
  { emails: Type.Array(Type.String(), { maxItems: MAX_EMAILS }) },
  { title: 'CreateEmailOption' },
)

const STEP = 'add emails'

/** The order is decision, claims, events: after a crash, unused claims can be taken over. */
async function addEmails(
  services: Services,
  context: CommandContext,
  id: number,
  emails: readonly string[],
): Promise<void> {
  const { publicUrl } = services
  if ((await users.ifDone(services, context, id, STEP)) !== undefined) return
  const reservedEnding = noReplyAddress('', publicUrl())
  const reserved = emails.find((email) => email.toLowerCase().endsWith(reservedEnding))
  if (reserved !== undefined) {
    throw new Refused(
      refuse.unprocessable(
        `emails: ${JSON.stringify(reserved)} is an address that the server gives to accounts`,
      ),
    )
  }
  const decided = decideAddEmails(await users.load(services, id), emails)
  if (isRefusal(decided)) throw new Refused(decided)
  const taken: string[] = []
  try {
    for (const email of emails) {
      if (!(await claimName(services, context, 'email', email, userStream(id)))) {
        throw new Refused(refuse.unprocessable(`emails: ${JSON.stringify(email)} is used by another user`))
      }
      taken.push(claimKeys.email(email))
    }
    await users.change(services, context, id, STEP, (state) => decideAddEmails(state, emails))
  } catch (error) {
    // After a refusal there is no event. After another failure the events may exist.
    if (error instanceof Refused) {
      for (const key of taken) await releaseClaim(services, context, key, userStream(id))
    }
    throw error
  }
}

async function removeEmails(
  services: Services,
  context: CommandContext,
  id: number,
  emails: readonly string[],
): Promise<void> {
  await users.change(services, context, id, 'remove emails', (state) => decideRemoveEmails(state, emails))
  for (const email of emails) {
    await releaseClaim(services, context, claimKeys.email(email), userStream(id))
  }
}

export const emailRoutes: Routes = (services) => {
  async function change(
    request: FastifyRequest & { body: { emails: readonly string[] } },
    reply: FastifyReply,
    work: typeof addEmails,
  ) {
    const { id } = signedIn(request)
    const context = commandContext(request)
    await withUserLock(services, id, () => work(services, context, id, request.body.emails))
    services.accountChanges.note(id, context.written)
    await settled(services, context, reply)
    return (await services.views.accounts.get(`${id}`)) ?? signedIn(request)
  }

  return async (app) => {
    app.post(
      '/user/emails',
      route('user', { body: EmailsOption, response: { 201: Type.Array(EmailWire) } }),
      async (request, reply) => reply.code(201).send(emailWires(await change(request, reply, addEmails))),
    )

    app.delete(
      '/user/emails',
      route('user', { body: EmailsOption, response: NO_CONTENT }),
      async (request, reply) => {
        await change(request, reply, removeEmails)
        return reply.code(204).send(null)
      },
    )
  }
}
