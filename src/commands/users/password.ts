/**
 * Changes the requester's password: `POST /user/password`. Gitea has a page for it and no route. The body has the old
 * password, since a browser sends a saved one with any request, even one from another page.
 */
import { Type } from 'typebox'
import { isPassword, MAX_PASSWORD, MIN_PASSWORD } from '../../auth/passwords/passwords.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { passwordHashOf } from '../../auth/secrets.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { changeUser } from './change.ts'
import { NOT_THE_PASSWORD } from './user.decider.ts'

const ChangePasswordOption = Type.Object(
  {
    old_password: Type.String({ maxLength: MAX_PASSWORD }),
    new_password: Type.String({ minLength: MIN_PASSWORD, maxLength: MAX_PASSWORD }),
  },
  { title: 'ChangePasswordOption' },
)

export const passwordRoutes: Routes = (services) => async (app) => {
  const own = route('user', { body: ChangePasswordOption, response: NO_CONTENT })
  app.post(
    '/user/password',
    { ...own, config: { ...own.config, forOldPassword: true, outlivesSignIn: true } },
    async (request, reply) => {
      const { id, passwordId } = signedIn(request)
      // A token must not give access to the password, which has more permissions.
      if (request.tokenScopes !== null) {
        throw new Refused(
          refuse.unauthenticated(
            'the password can only be changed after Basic authentication with the password',
          ),
        )
      }
      const { old_password, new_password } = request.body
      const hash = await passwordHashOf(services.secrets, id, passwordId)
      if (hash === undefined || !(await isPassword(old_password, hash))) {
        throw new Refused(NOT_THE_PASSWORD)
      }
      if (old_password === new_password) {
        throw new Refused(refuse.unprocessable('new_password: must differ from the old one'))
      }
      const context = requestContext(request)
      // Another change may come first: an attacker with the old password must not win against an admin who resets it.
      const password = { text: new_password, mustChange: false, replaces: passwordId }
      await changeUser(services, context, id, { password })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
