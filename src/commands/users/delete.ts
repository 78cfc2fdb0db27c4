/** Deletes a user: `DELETE /admin/users/{username}`. The user's history stays, under a ghost. */
import { Type } from 'typebox'
import { awaitPermissions } from '../../access/await-permissions.ts'
import { UsernameParams, userNamed } from '../../api/users/users.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { forgetPassword, forgetToken } from '../../auth/secrets.ts'
import { endSessions } from '../../auth/sessions/session-store.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import { claimKeys, userStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { repositories, users } from '../execution/aggregates.ts'
import { releaseClaim } from '../execution/claims.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { forEachSettled } from '../execution/for-each-settled.ts'
import { idsOf } from '../execution/id-map.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { leaveTeams, organizationsIn } from '../organizations/deleted-members.ts'
import { decideForgetUser } from '../repositories/ownership/ownership.decider.ts'
import { whileDeleting } from './accounts/deletion.ts'
import { hasOtherAdmin, requireStillAdmin, withSiteAdminLock, withUserLock } from './change.ts'
import { decideDeleteUser } from './user.decider.ts'

/**
 * Deletes a user without repositories and organizations. The order is: decision, removal from collaborators, decision
 * again while the user cannot receive a repository, event, address, secrets. After a crash before the event, the same
 * request finishes the work; after the event the user cannot sign in, and the address is free. The login stays claimed,
 * because events name accounts by it.
 */
async function deleteUser(services: Services, context: CommandContext, id: number): Promise<void> {
  const { secrets, views } = services
  const before = await users.load(services, id)
  const refusal = decideDeleteUser(before, await belongingsOf(services, id))
  if (isRefusal(refusal)) throw new Refused(refusal)
  if (before.status !== 'existing') return
  const { user, tokens, passwordIds } = before
  await forEachSettled(await views.repositories.ids({ readers: id }), async (repoId) => {
    await repositories.change(services, context, Number(repoId), 'remove collaborator', (state) =>
      decideForgetUser(state, user),
    )
  })
  const { teams = {} } = (await views.accounts.get(`${id}`)) ?? {}
  for (const organizationId of organizationsIn(teams)) {
    await leaveTeams(services, context, organizationId, user)
  }
  await whileDeleting(services, context, { id, kind: 'user' }, async () => {
    await awaitPermissions(services)
    const belongings = await belongingsOf(services, id)
    await users.change(services, context, id, 'delete user', (state) => decideDeleteUser(state, belongings))
  })
  services.accountChanges.note(id, context.written)
  for (const email of [before.settings.email, ...before.emails]) {
    await releaseClaim(services, context, claimKeys.email(email), userStream(id))
  }
  await endSessions(secrets, id)
  for (const tokenId of idsOf(tokens)) await forgetToken(secrets, tokenId)
  for (const passwordId of passwordIds) await forgetPassword(secrets, id, passwordId)
}

async function belongingsOf(services: Services, id: number) {
  const { accounts, repositories: owned } = services.views
  return {
    repositories: await owned.count({ ownerId: id }),
    organizations: Object.keys((await accounts.get(`${id}`))?.memberships ?? {}).length,
    hasOtherAdmin: await hasOtherAdmin(services, id),
  }
}

export const deleteUserRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/admin/users/:username',
    route('admin', {
      params: UsernameParams,
      querystring: Type.Object({
        purge: Type.Optional(Type.String({ description: 'true is not supported: the work of a user stays' })),
      }),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const requester = siteAdmin(request, 'delete users')
      const { purge = '' } = request.query
      if (!['', 'false', '0'].includes(purge)) {
        throw new Refused(refuse.unprocessable('purge: is not supported; contributions stay'))
      }
      const { id } = await userNamed(services, request.params.username)
      if (id === requester.id) throw new Refused(refuse.unprocessable('you cannot delete yourself'))
      const context = requestContext(request)
      await withSiteAdminLock(services, async () => {
        await requireStillAdmin(services, requester)
        await withUserLock(services, id, () => deleteUser(services, context, id))
      })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
