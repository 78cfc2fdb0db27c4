/** The look-up of the collaborator in a path. */
import { Type } from 'typebox'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'

export const CollaboratorParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  collaborator: Type.String(),
})

/** Returns the user with that login. @throws Refused (unprocessable) when there is none, as in Gitea */
export async function collaboratorNamed({ views }: Services, login: string): Promise<AccountDocument> {
  const account = await views.accounts.findOne({ loginKey: login.toLowerCase() })
  if (account?.kind === 'user') return account
  throw new Refused(refuse.unprocessable(`collaborator: user "${login}" does not exist`))
}
